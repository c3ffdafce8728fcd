package dev.starling.samples;

/**
 * One thing that was looked at.
 *
 * @param subject what
 * @param verdict how it is
 * @param state what was found
 * @param remedy what to do about it
 */
record Finding(String subject, Verdict verdict, String state, String remedy) {
    /** How it is. */
    enum Verdict {
        /** As it should be. */
        OK,
        /** It works, but less well than it could. */
        NOTE,
        /** Something will not work. */
        MISSING
    }

    Finding {
        remedy = verdict == Verdict.OK ? "" : remedy;
    }
}
