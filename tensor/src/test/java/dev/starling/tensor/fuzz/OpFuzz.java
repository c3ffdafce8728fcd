package dev.starling.tensor.fuzz;

import java.util.HashMap;
import java.util.Map;

/**
 * Random calls of the tensor API with legal and illegal arguments, in all types and layouts, on one and two threads:
 * values and gradients against the reference device, equal bits when repeated, recorded and captured, typed errors.
 */
public final class OpFuzz implements Fuzz {
    /** Number of findings of one kind that are shrunk; further ones likely have the same cause. */
    private static final int SHRUNK = 2;

    private final Map<String, Integer> seen = new HashMap<>();

    @Override
    public String run(long seed) {
        Choices c = Choices.seeded(seed);
        Finding f = new OpCase(c).check();
        if (f == null) {
            return null;
        }
        if (seen.merge(f.kind(), 1, Integer::sum) > SHRUNK) {
            return f.kind() + "\n(another of this kind, not shrunk)";
        }
        Finding smallest = Shrinker.shrink(k -> new OpCase(k).check(), c.drawn(), f);
        return smallest.kind() + "\n" + smallest.text();
    }

    /** Runs seeds; see {@link FuzzRunner#main}. */
    public static void main(String... args) throws Exception {
        FuzzRunner.main(OpFuzz.class, args);
    }
}
