package dev.starling.nn.data;

import java.util.List;

/** Examples by index. Called by several threads at once. */
public interface Dataset {
    /** Returns the number of examples. */
    int size();

    /** Returns what an example consists of: the model's input first, the target last. */
    List<Field> fields();

    /**
     * Writes one example. What is random in it must depend on {@link Example#seed}, {@link Example#epoch} and
     * {@code index} alone, so that any number of threads makes the same batches.
     *
     * @param index in {@code [0, size())}
     * @param target receives every field
     * @throws Exception if the example cannot be read; it reaches whoever asks for the batch
     */
    void write(int index, Example target) throws Exception;
}
