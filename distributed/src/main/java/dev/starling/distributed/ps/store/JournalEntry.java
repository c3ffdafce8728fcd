package dev.starling.distributed.ps.store;

/** A change that a {@link Journal} records. The journal only reads it. */
public interface JournalEntry {
    /** Returns the number of the record. */
    long record();

    /** Returns the kind of the record, one of those of {@link Journal}. */
    int recordKind();

    /** Returns the length of the record in bytes, a multiple of 8. */
    int recordLength();

    /** Returns the unit that changed. */
    int unit();

    /** Returns the learning rate, or the number of steps taken. */
    double rate();

    /** Returns the number of elements of {@link #gradient}, or of rows, in the record. */
    int recorded();

    /** Returns the number of floats in a row, or the slot of the rule's state. */
    int stride();

    /** Returns the gradient, or the weights, of a block. */
    float[] gradient();

    /** Returns the keys of {@link #rows}. */
    long[] keys();

    /** Returns the rows as they are after the change. */
    float[] rows();

    /** Returns the number of workers whose clocks changed. */
    int movedCount();

    /** Returns the workers whose clocks changed. */
    int[] moved();

    /** Returns the states of {@link #moved}. */
    byte[] movedStates();

    /** Returns the sessions of {@link #moved}. */
    long[] movedSessions();

    /** Returns the numbers of pushes of {@link #moved}. */
    long[] movedCounts();

    /** Returns the clocks of {@link #moved}. */
    long[] movedClocks();
}
