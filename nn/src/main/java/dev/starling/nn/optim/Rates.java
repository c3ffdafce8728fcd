package dev.starling.nn.optim;

/** Describes schedules of the learning rate, so that processes can compare them. */
final class Rates {
    /** The first steps of which all rates are compared. */
    private static final int ALL = 4096;
    /** The last step whose rate is compared. */
    private static final long LAST = 1L << 24;

    private Rates() {
    }

    /**
     * Returns the rates after 1, 2, 4, 8, … steps, where they change, with a checksum of those of the first steps;
     * {@code constant} if they do not change.
     */
    static String describe(Schedule schedule) {
        StringBuilder text = new StringBuilder();
        int checksum = 0;
        double first = schedule.rate(0);
        double last = first;
        boolean constant = true;
        try {
            for (long step = 1; step <= LAST; step = step < ALL ? step + 1 : 2 * step) {
                double rate = schedule.rate(step);
                checksum = 31 * checksum + Double.hashCode(rate);
                constant &= rate == first;
                if (Long.bitCount(step) == 1 && rate != last) {
                    text.append(rate).append(" after ").append(step).append(step == 1 ? " step, " : " steps, ");
                    last = rate;
                }
            }
        } catch (RuntimeException e) {
            // A caller's own schedule, which has rates for the steps of the run only.
            constant = false;
        }
        return constant ? "constant" : text + "checksum " + Integer.toHexString(checksum);
    }
}
