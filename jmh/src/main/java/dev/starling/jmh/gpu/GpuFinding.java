package dev.starling.jmh.gpu;

import java.util.Locale;

/**
 * The result of a workload.
 *
 * @param ours median seconds of a run, NaN if it failed
 * @param theirs PyTorch's median, NaN if it failed or PyTorch is missing
 * @param ofCopy Starling's rate relative to the rate of copying memory, NaN if that does not apply
 * @param note why a number is missing, or empty
 */
record GpuFinding(GpuWorkload workload, double ours, double theirs, double ofCopy, String note) {
    private static final String HEADING = String.format(Locale.ROOT, "%-6s %-44s %10s %10s %6s %7s %5s %s", "",
            "case", "Starling", "PyTorch", "ratio", "of copy", "goal", "unit");

    static String heading() {
        return HEADING;
    }

    /** Returns how many times as fast as PyTorch Starling is. */
    double ratio() {
        return theirs / ours;
    }

    /** Whether the goal is reached. */
    enum Verdict {
        HELD, MISSED, FAILED,
        /** There is no goal, or nothing to compare with. */
        ALONE
    }

    Verdict verdict() {
        if (Double.isNaN(ours)) {
            return Verdict.FAILED;
        }
        if (Double.isNaN(workload.goal())) {
            return Verdict.ALONE;
        }
        if (workload.isHostTime()) {
            return workload.rate(ours) <= workload.goal() ? Verdict.HELD : Verdict.MISSED;
        }
        double part = workload.isElementwise() ? ofCopy : ratio();
        return Double.isNaN(part) ? Verdict.ALONE : part >= workload.goal() ? Verdict.HELD : Verdict.MISSED;
    }

    @Override
    public String toString() {
        Verdict verdict = verdict();
        String text = verdict == Verdict.HELD || verdict == Verdict.ALONE ? verdict.name().toLowerCase(Locale.ROOT)
                : verdict.name();
        return String.format(Locale.ROOT, "%-6s %-44s %10s %10s %6s %7s %5s %s%s", text, workload.order(),
                number(ours), number(theirs), part(ratio()), part(ofCopy), part(workload.goal()), workload.unit(),
                note.isEmpty() ? "" : "  (" + note + ")");
    }

    private static String part(double part) {
        return Double.isNaN(part) ? "-" : String.format(Locale.ROOT, "%.2f", part);
    }

    private String number(double seconds) {
        return Double.isNaN(seconds) ? "-" : String.format(Locale.ROOT, "%.1f", workload.rate(seconds));
    }

    /** Returns one JSON object. */
    String json() {
        return String.format(Locale.ROOT, "{\"case\":\"%s\",\"unit\":\"%s\",\"starling\":%s,\"pytorch\":%s,"
                + "\"ratio\":%s,\"ofCopy\":%s,\"goal\":%s,\"verdict\":\"%s\",\"note\":\"%s\"}",
                workload.order(), workload.unit(), value(ours), value(theirs), orNull(ratio()), orNull(ofCopy),
                orNull(workload.goal()), verdict(), note.replaceAll("[\"\\\\]", "'"));
    }

    private static String orNull(double part) {
        return Double.isNaN(part) ? "null" : part(part);
    }

    private String value(double seconds) {
        return Double.isNaN(seconds) ? "null" : String.format(Locale.ROOT, "%.6g", workload.rate(seconds));
    }
}
