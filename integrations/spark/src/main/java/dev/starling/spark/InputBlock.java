package dev.starling.spark;

import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The part of a file from which a row comes, as {@code input_file_name()} and {@code input_file_block_start()} return
 * it. Spark keeps the part that a task reads at present in a variable of the task's thread.
 *
 * @param start -1 if the row comes from no file
 */
record InputBlock(UTF8String path, long start, long length) {
    /** Returns the part that this thread reads. */
    static InputBlock current() {
        return new InputBlock(InputFileBlockHolder.getInputFilePath(), InputFileBlockHolder.getStartOffset(),
                InputFileBlockHolder.getLength());
    }

    /** Makes this the part that this thread reads. */
    void restore() {
        if (start < 0) {
            InputFileBlockHolder.unset();
        } else {
            InputFileBlockHolder.set(path.toString(), start, length);
        }
    }
}
