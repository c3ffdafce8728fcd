package dev.starling.tensor.fuzz;

/**
 * A failed case.
 *
 * @param kind the kind of failure in a few words; shrinking preserves it
 * @param text the details, with a snippet that reproduces the failure
 */
record Finding(String kind, String text) { }
