package dev.starling.tensor.fuzz;

/** A search whose cases are drawn from seeds. */
public interface Fuzz {
    /**
     * Runs the case of a seed. Returns a description of the failure with the smallest snippet, or {@code null} if it
     * passed.
     */
    String run(long seed);
}
