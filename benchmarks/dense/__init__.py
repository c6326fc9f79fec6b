"""Dense models, and what a step costs.

::

    compare         a synchronous step against DDP over Gloo (`loops`)
    link            a step over a slow link between two network namespaces (`network`)
    step_cost       a step with nothing to compute, and two checkouts (`step_cost_loops`,
                    `step_cost_models`; what nobody can spare: `step_cost_floors`)
    two_trainers    what a second trainer is worth where a step computes
"""
