package dev.starling.tensor.fuzz;

import java.util.Arrays;
import java.util.function.Function;

/** Simplifies a failed case while it fails in the same way. */
final class Shrinker {
    private static final int TRIALS = 1500;
    private static final long MAX_NS = 4_000_000_000L;

    private final Function<Choices, Finding> check;
    private final long end = System.nanoTime() + MAX_NS;
    private int[] best;
    private Finding finding;
    private int trials;

    private Shrinker(Function<Choices, Finding> check, int[] best, Finding finding) {
        this.check = check;
        this.best = best;
        this.finding = finding;
    }

    /** Returns the finding of the simplest case found. */
    static Finding shrink(Function<Choices, Finding> check, int[] choices, Finding finding) {
        Shrinker s = new Shrinker(check, choices, finding);
        boolean improves = true;
        while (improves && s.hasTrialsLeft()) {
            improves = s.pass();
        }
        return s.finding;
    }

    private boolean hasTrialsLeft() {
        return trials < TRIALS && System.nanoTime() < end;
    }

    private boolean pass() {
        boolean improves = false;
        for (int length = 8; length >= 1; length /= 2) {
            for (int at = best.length - length; at >= 0 && hasTrialsLeft(); at--) {
                if (at + length <= best.length) {
                    int[] shorter = Arrays.copyOf(best, best.length - length);
                    System.arraycopy(best, at + length, shorter, at, best.length - at - length);
                    improves |= improves(shorter);
                }
            }
        }
        for (int at = 0; at < best.length && hasTrialsLeft(); at++) {
            for (int value : new int[] {0, best[at] / 2, best[at] - 1}) {
                if (at < best.length && value >= 0 && value < best[at]) {
                    int[] lower = best.clone();
                    lower[at] = value;
                    improves |= improves(lower);
                }
            }
        }
        return improves;
    }

    private boolean improves(int... choices) {
        trials++;
        Choices c = Choices.of(choices);
        Finding f;
        try {
            f = check.apply(c);
        } catch (RuntimeException e) {
            return false;
        }
        if (f == null || !f.kind().equals(finding.kind())) {
            return false;
        }
        int[] drawn = c.drawn();
        if (drawn.length > best.length || drawn.length == best.length && Arrays.compare(drawn, best) >= 0) {
            return false;
        }
        best = drawn;
        finding = f;
        return true;
    }
}
