package dev.starling.nn.chart;

import dev.starling.errors.PlainFile;
import dev.starling.nn.data.DataException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;

/** Writes drawings to files, in the format that the file's name ends in: {@code .svg} or {@code .png}. */
public final class Picture {
    private Picture() {
    }

    /** Returns whether a file's name ends in a format. */
    public static boolean isDrawable(Path file) {
        return isSvg(file) || file.toString().endsWith(".png");
    }

    private static boolean isSvg(Path file) {
        return file.toString().endsWith(".svg");
    }

    /**
     * Writes a drawing. The directory of the file is created; a file that exists is replaced, or unchanged if the new
     * one cannot be written.
     *
     * @throws DataException if the file cannot be written, or is an image and the JDK cannot draw text
     */
    public static void write(Path file, int width, int height, Consumer<Canvas> drawing) {
        if (!isDrawable(file)) {
            throw new DataException(file, "a name that ends in .svg or .png", "another name", "rename the file");
        }
        try {
            if (file.toAbsolutePath().getParent() instanceof Path directory) {
                Files.createDirectories(directory);
            }
            replace(file, isSvg(file) ? svg(width, height, drawing).getBytes(StandardCharsets.UTF_8)
                    : png(width, height, drawing));
        } catch (IOException e) {
            throw new DataException(file, "a file that can be written", e.toString(), "choose another place", e);
        } catch (LinkageError | InternalError e) {
            throw new DataException(file, "a JDK that can draw text", e.toString(),
                    "install fontconfig, freetype and a font, add the module java.desktop to a Java image that "
                            + "lacks it, or write .svg", e);
        }
    }

    /** When the JDK first draws text, it clears the thread's interrupt. */
    private static byte[] png(int width, int height, Consumer<Canvas> drawing) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            Canvas.Image image = new Canvas.Image(width, height);
            drawing.accept(image);
            return image.png();
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Replaces a file when its new contents are written: if the disk is full, the old picture stays. */
    private static void replace(Path file, byte[] contents) throws IOException {
        Path target = PlainFile.target(file);
        Path draft = PlainFile.draft(target);
        try {
            Files.write(draft, contents);
            PlainFile.rename(draft, target);
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    /** Returns a drawing as SVG. */
    public static String svg(int width, int height, Consumer<Canvas> drawing) {
        Canvas.Svg svg = new Canvas.Svg(width, height);
        drawing.accept(svg);
        return svg.toString();
    }
}
