package dev.starling.samples;

/**
 * The result of one check.
 *
 * @param subject what was checked
 * @param verdict the assessment
 * @param state what was found
 * @param remedy what to do about it
 */
record Finding(String subject, Verdict verdict, String state, String remedy) {
    /** The assessment of a subject. */
    enum Verdict {
        /** As it should be. */
        OK,
        /** It works, but not as well as it could. */
        NOTE,
        /** Something will not work. */
        MISSING
    }

    Finding {
        remedy = verdict == Verdict.OK ? "" : remedy;
    }
}
