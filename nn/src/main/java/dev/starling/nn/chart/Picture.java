package dev.starling.nn.chart;

import dev.starling.nn.data.DataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;
import javax.imageio.ImageIO;

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
     * Writes a drawing. The directory of the file is created; a file that exists is replaced.
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
            if (isSvg(file)) {
                Files.writeString(file, svg(width, height, drawing));
                return;
            }
            Canvas.Image image = new Canvas.Image(width, height);
            drawing.accept(image);
            if (!ImageIO.write(image.drawn(), "png", file.toFile())) {
                throw new IOException("no PNG encoder in this JDK");
            }
        } catch (IOException e) {
            throw new DataException(file, "a file that can be written", e.toString(), "choose another place", e);
        } catch (LinkageError | InternalError e) {
            throw new DataException(file, "a JDK that can draw text", e.toString(),
                    "install fontconfig, freetype and a font, or write .svg", e);
        }
    }

    /** Returns a drawing as SVG. */
    public static String svg(int width, int height, Consumer<Canvas> drawing) {
        Canvas.Svg svg = new Canvas.Svg(width, height);
        drawing.accept(svg);
        return svg.toString();
    }
}
