package dev.starling.cuda.bench;

import java.util.Locale;

/**
 * What came of a workload.
 *
 * @param ours median seconds of a run, NaN if it failed
 * @param theirs PyTorch's, NaN if it failed or is not there
 * @param ofCopy our part of the rate at which memory is copied, NaN if that is no measure of it
 * @param note why a number is missing, or empty
 */
record Finding(Workload workload, double ours, double theirs, double ofCopy, String note) {
    private static final String HEADING = String.format(Locale.ROOT, "%-44s %10s %10s %6s %7s %5s %s", "case",
            "Starling", "PyTorch", "ratio", "of copy", "goal", "unit");

    static String heading() {
        return HEADING;
    }

    /** Returns how many times as fast as PyTorch we are. */
    double ratio() {
        return theirs / ours;
    }

    /** Returns whether it failed, or was measured and is slower than its goal. */
    boolean misses() {
        return Double.isNaN(ours) || (Double.isNaN(ofCopy) ? ratio() : ofCopy) < workload.goal();
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%-44s %10s %10s %6s %7s %5s %s%s%s", workload.order(), number(ours),
                number(theirs), part(ratio()), part(ofCopy), workload.goal(), workload.unit(),
                misses() ? "  below" : "", note.isEmpty() ? "" : "  (" + note + ")");
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
                + "\"ratio\":%s,\"ofCopy\":%s,\"goal\":%s,\"note\":\"%s\"}", workload.order(), workload.unit(),
                value(ours), value(theirs), part(ratio()).replace("-", "null"), part(ofCopy).replace("-", "null"),
                workload.goal(), note.replaceAll("[\"\\\\]", "'"));
    }

    private String value(double seconds) {
        return Double.isNaN(seconds) ? "null" : String.format(Locale.ROOT, "%.6g", workload.rate(seconds));
    }
}
