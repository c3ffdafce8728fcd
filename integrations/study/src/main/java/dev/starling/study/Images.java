package dev.starling.study;

import dev.starling.nn.data.Augment;
import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.LabelledImages;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The images of the study, in one file for all processes. */
final class Images {
    private Images() {
    }

    /**
     * Writes the first {@code count} images as records of CIFAR-10's layout.
     *
     * @param file among the temporary files
     * @throws DataException if it cannot be written
     */
    static void write(Path file, LabelledImages images, int count) {
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file))) {
            for (int i = 0; i < count; i++) {
                out.write(images.label(i));
                out.write(images.pixels(), images.offset(i), images.imageSize());
            }
        } catch (IOException e) {
            throw new DataException(file, "a file for " + count + " images", e.toString(), Cifar10Command.TEMPORARY, e);
        }
    }

    /** Reads a file that {@link #write} wrote. */
    static LabelledImages read(Path file, int count) {
        return CifarFile.read(List.of(file), count);
    }

    /** Returns an augmentation that converts an image's bytes to numbers 0 to 255, the input of {@link Photographs}. */
    static Augment asBytes() {
        float scale = 1 / 255f;
        return Augment.normalize(CifarFile.CHANNELS, CifarFile.SIDE, CifarFile.SIDE, new float[CifarFile.CHANNELS],
                new float[] {scale, scale, scale});
    }
}
