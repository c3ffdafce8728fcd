package dev.starling.nn.optim;

import dev.starling.tensor.op.Rule;

/**
 * The rule of a parameter's steps if they need its gradient as a whole, for callers that perform them elsewhere.
 *
 * @param direction the rule that computes the direction of a step from the gradient
 * @param descent the rule of the step along that direction, without state
 */
public record WholeRule(TensorRule direction, Rule descent) { }
