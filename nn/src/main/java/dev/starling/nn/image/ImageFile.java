package dev.starling.nn.image;

import dev.starling.nn.data.DataException;
import java.awt.color.ColorSpace;
import java.awt.image.BufferedImage;
import java.awt.image.ColorModel;
import java.awt.image.ComponentColorModel;
import java.awt.image.DataBuffer;
import java.awt.image.Raster;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import javax.imageio.ImageIO;
import javax.imageio.ImageReader;
import javax.imageio.stream.ImageInputStream;
import javax.imageio.stream.MemoryCacheImageInputStream;

/** Decodes a file of an image with the JDK's ImageIO: PNG, JPEG, GIF, BMP, TIFF and others that it has a reader for. */
final class ImageFile {
    private static final String REPLACE = "replace or remove the file";

    private ImageFile() {
    }

    /**
     * Reads the first image of a file. Samples of 8 or 16 bits become floats from 0 to 1 without conversion between
     * colour spaces. Opacity is dropped.
     *
     * @param channels 1 for grey or 3 for colours, converted if the file has the other
     * @param maxPixels limit for the size that the file's header gives
     */
    static Image read(Path path, int channels, long maxPixels) {
        List<String> truncated = new ArrayList<>();
        BufferedImage image;
        try (InputStream file = Files.newInputStream(path);
                ImageInputStream in = new MemoryCacheImageInputStream(file)) {
            Iterator<ImageReader> readers = ImageIO.getImageReaders(in);
            if (!readers.hasNext()) {
                throw new DataException(path, "an image of a format among " + Arrays.toString(
                        ImageIO.getReaderFormatNames()), Files.size(path) + " bytes of none of them", REPLACE);
            }
            ImageReader reader = readers.next();
            try {
                reader.setInput(in, true, true);
                long pixels = (long) reader.getWidth(0) * reader.getHeight(0);
                if (pixels > maxPixels) {
                    throw new DataException(path, "an image of at most " + maxPixels + " pixels", reader.getWidth(0)
                            + " x " + reader.getHeight(0), "make it smaller, or set a higher limit with maxPixels(..)");
                }
                reader.addIIOReadWarningListener((source, warning) -> {
                    if (warning.contains("runcated") || warning.contains("remature")) {
                        truncated.add(warning);
                    }
                });
                if (reader.getFormatName().equals("png")) {
                    try (InputStream again = Files.newInputStream(path)) {
                        PngFile.requireIntact(again);
                    }
                }
                image = reader.read(0);
            } finally {
                reader.dispose();
            }
        } catch (IOException | RuntimeException e) {
            throw e instanceof DataException own ? own
                    : new DataException(path, "an intact image", e.toString(), REPLACE, e);
        }
        if (!truncated.isEmpty()) {
            throw new DataException(path, "a complete image", truncated.getFirst(), REPLACE);
        }
        return of(image, channels);
    }

    private static Image of(BufferedImage source, int channels) {
        Image image = samples(source);
        if (image.channels() == channels) {
            return image;
        }
        int plane = image.height() * image.width();
        Image converted = Image.black(channels, image.height(), image.width());
        for (int i = 0; i < plane; i++) {
            float grey = Transforms.grey(image, i);
            for (int c = 0; c < channels; c++) {
                converted.pixels()[c * plane + i] = grey;
            }
        }
        return converted;
    }

    private static Image samples(BufferedImage source) {
        ColorModel model = source.getColorModel();
        boolean bytes = model.getTransferType() == DataBuffer.TYPE_BYTE;
        // getRGB would lighten grey images: Java takes them as linear.
        if (!(model instanceof ComponentColorModel) || model.isAlphaPremultiplied()
                || !bytes && model.getTransferType() != DataBuffer.TYPE_USHORT) {
            return colours(source);
        }
        int type = model.getColorSpace().getType();
        int channels = type == ColorSpace.TYPE_GRAY ? 1 : type == ColorSpace.TYPE_RGB ? 3 : 0;
        if (channels == 0) {
            return colours(source);
        }
        Raster raster = source.getRaster();
        int width = source.getWidth();
        int plane = width * source.getHeight();
        Image image = Image.black(channels, source.getHeight(), width);
        int[] row = new int[width];
        for (int c = 0; c < channels; c++) {
            float largest = (1 << model.getComponentSize(c)) - 1;
            for (int y = 0; y < source.getHeight(); y++) {
                raster.getSamples(0, y, width, 1, c, row);
                for (int x = 0; x < width; x++) {
                    image.pixels()[c * plane + y * width + x] = row[x] / largest;
                }
            }
        }
        return image;
    }

    private static Image colours(BufferedImage source) {
        int width = source.getWidth();
        int plane = width * source.getHeight();
        Image image = Image.black(3, source.getHeight(), width);
        int[] row = new int[width];
        for (int y = 0; y < source.getHeight(); y++) {
            source.getRGB(0, y, width, 1, row, 0, width);
            for (int x = 0; x < width; x++) {
                for (int c = 0; c < 3; c++) {
                    image.pixels()[c * plane + y * width + x] = (row[x] >> 16 - 8 * c & 0xff) / 255f;
                }
            }
        }
        return image;
    }
}
