package dev.starling.tensor.fuzz;

import java.util.Arrays;
import java.util.function.Function;

/** Makes a case that went wrong simpler for as long as it goes wrong in the same way. */
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
        boolean better = true;
        while (better && s.goesOn()) {
            better = s.pass();
        }
        return s.finding;
    }

    private boolean goesOn() {
        return trials < TRIALS && System.nanoTime() < end;
    }

    private boolean pass() {
        boolean better = false;
        for (int length = 8; length >= 1; length /= 2) {
            for (int at = best.length - length; at >= 0 && goesOn(); at--) {
                if (at + length <= best.length) {
                    int[] shorter = Arrays.copyOf(best, best.length - length);
                    System.arraycopy(best, at + length, shorter, at, best.length - at - length);
                    better |= better(shorter);
                }
            }
        }
        for (int at = 0; at < best.length && goesOn(); at++) {
            for (int value : new int[] {0, best[at] / 2, best[at] - 1}) {
                if (at < best.length && value >= 0 && value < best[at]) {
                    int[] lower = best.clone();
                    lower[at] = value;
                    better |= better(lower);
                }
            }
        }
        return better;
    }

    private boolean better(int... choices) {
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
        int[] taken = c.taken();
        if (taken.length > best.length || taken.length == best.length && Arrays.compare(taken, best) >= 0) {
            return false;
        }
        best = taken;
        finding = f;
        return true;
    }
}
