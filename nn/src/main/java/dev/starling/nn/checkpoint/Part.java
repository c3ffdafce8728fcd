package dev.starling.nn.checkpoint;

import dev.starling.tensor.TensorException;
import java.util.Locale;

/**
 * A file of a checkpoint that another process wrote, in addition to the file of tensors.
 *
 * @param file its name in the checkpoint's directory: {@code step-N-XXXXXXXX-K.rows} with the step, eight hexadecimal
 *     digits that distinguish this save from other saves of the step, and the number of the part
 * @param bytes its length
 * @param checksum checksum of its content, in a format chosen by the process that wrote it
 */
public record Part(String file, long bytes, String checksum) {
    /** The pattern of the names of parts. */
    static final String NAME = "step-\\d{1,18}-[0-9a-f]{8}-\\d{1,9}\\.rows";

    /** Checks that the name does not lead out of the directory. */
    public Part {
        if (!file.matches(NAME) || bytes < 0) {
            throw TensorException.argument("checkpoint part",
                    "the name of a part must be step-N-XXXXXXXX-K.rows and its"
                    + " length at least 0, got " + file + " of " + bytes + " bytes", "use Part.name(...)");
        }
    }

    /** Returns the file name of a part. */
    public static String name(long step, int save, int number) {
        return String.format(Locale.ROOT, "step-%010d-%08x-%d.rows", step, save, number);
    }
}
