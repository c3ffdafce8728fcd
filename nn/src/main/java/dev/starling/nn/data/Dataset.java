package dev.starling.nn.data;

import java.util.List;

/** Examples by index. Several threads call it concurrently. */
public interface Dataset {
    /** Returns the number of examples. */
    int size();

    /**
     * Returns the fields of an example. A layer takes the first as its input, and its loss the last as the target; a
     * {@link dev.starling.nn.Model} finds inputs and targets by their names.
     */
    List<Field> fields();

    /**
     * Returns the length of an example in the fields whose {@linkplain Field#length length} varies, from 0; by default
     * -1, for a data set without such fields. It is called for each example of a batch before the first is written.
     *
     * @param index in {@code [0, size())}
     */
    default int length(int index) {
        return -1;
    }

    /**
     * Writes one example. Its random decisions must depend only on {@link Example#seed}, {@link Example#epoch} and
     * {@code index}, so that any number of threads produces the same batches.
     *
     * @param index in {@code [0, size())}
     * @param target receives every field
     * @throws Exception if the example cannot be read; the reader of the batch gets it as a {@link LoadException}
     */
    void write(int index, Example target) throws Exception;

    /**
     * Returns whether examples can only be written in ascending order of their indices, by one thread, as those of a
     * {@link StreamDataset}. A data set that reads others returns whether one of them is.
     */
    default boolean isSequential() {
        return false;
    }

    /** Returns the same examples with names for their fields, in the order of {@link #fields}. */
    default Dataset named(String... names) {
        return NamedFields.of(this, names);
    }
}
