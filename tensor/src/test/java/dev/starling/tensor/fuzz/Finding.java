package dev.starling.tensor.fuzz;

/**
 * A case that went wrong.
 *
 * @param kind what went wrong, in few words; shrinking keeps it
 * @param text what exactly, with a snippet that shows it
 */
record Finding(String kind, String text) { }
