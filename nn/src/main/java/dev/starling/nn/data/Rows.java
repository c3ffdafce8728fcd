package dev.starling.nn.data;

import java.lang.foreign.MemorySegment;

/** Memory for the fields of examples. */
interface Rows {
    /** Returns the number of the pass over the data. */
    int epoch();

    /** Returns the length of the rows of fields that vary. */
    int length();

    /** Returns the memory of a field, one example after the other. */
    MemorySegment segment(int field);
}
