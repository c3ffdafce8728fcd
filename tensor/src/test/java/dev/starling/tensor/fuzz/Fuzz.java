package dev.starling.tensor.fuzz;

/** A search whose cases are drawn from seeds. */
public interface Fuzz {
    /** Runs the case of a seed. Returns what is wrong, in words and with the smallest snippet, or {@code null}. */
    String run(long seed);
}
