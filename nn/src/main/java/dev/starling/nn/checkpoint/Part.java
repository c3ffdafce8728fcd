package dev.starling.nn.checkpoint;

import dev.starling.tensor.TensorException;

/**
 * A file of a checkpoint that another process has written, beside the tensors.
 *
 * @param file its name, in the checkpoint's directory: {@code step-N-XXXXXXXX-K.rows} with the step, eight hexadecimal
 *     digits that tell this save from others of the step, and the number of the part
 * @param bytes its length
 * @param checksum of its content, in words of who wrote it
 */
public record Part(String file, long bytes, String checksum) {
    /** What names of parts are made like. */
    static final String NAME = "step-\\d{1,18}-[0-9a-f]{8}-\\d{1,9}\\.rows";

    /** Checks that no name leads out of the directory. */
    public Part {
        if (!file.matches(NAME) || bytes < 0) {
            throw TensorException.argument("checkpoint part", "a part must be called step-N-XXXXXXXX-K.rows and have a"
                    + " length, got " + file + " of " + bytes + " bytes", "use Part.name");
        }
    }

    /** Returns the name of a part. */
    public static String name(long step, int save, int number) {
        return "step-%010d-%08x-%d.rows".formatted(step, save, number);
    }
}
