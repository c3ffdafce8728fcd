package dev.starling.spark;

import dev.starling.nn.image.PngFile;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.awt.image.IndexColorModel;
import java.awt.image.Raster;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import javax.imageio.ImageIO;
import javax.imageio.ImageReader;
import javax.imageio.stream.ImageInputStream;
import javax.imageio.stream.MemoryCacheImageInputStream;
import org.apache.spark.sql.catalyst.InternalRow;

/** Reads images of Spark's columns as numbers from 0 to 255, {@code [C, H, W]}, red first. */
final class Images {
    private static final int FIELDS = 6;
    private static final int ORIGIN = 0;
    private static final int HEIGHT = 1;
    private static final int WIDTH = 2;
    private static final int CHANNELS = 3;
    private static final int DATA = 5;
    /** Reading an image of this size takes half a gigabyte of memory. */
    private static final int MAX_PIXELS = 1 << 26;

    private Images() {
    }

    /** An image that cannot be read; the message says why. */
    static final class UnreadableException extends Exception {
        private static final long serialVersionUID = 1L;

        UnreadableException(String problem) {
            super(problem);
        }
    }

    /** Returns whether bytes start with the signature of a PNG, JPEG, GIF or BMP file. */
    static boolean isFile(byte[] bytes) {
        return startsWith(bytes, 0x89, 'P', 'N', 'G') || startsWith(bytes, 0xFF, 0xD8, 0xFF)
                || startsWith(bytes, 'G', 'I', 'F', '8')
                || startsWith(bytes, 'B', 'M') && bytes.length > 6 && bytes[6] == 0;
    }

    private static boolean startsWith(byte[] bytes, int... signature) {
        boolean same = bytes.length >= signature.length;
        for (int i = 0; same && i < signature.length; i++) {
            same = (bytes[i] & 0xFF) == signature[i];
        }
        return same;
    }

    /**
     * Reads an image and scales it to the size of {@code shape}.
     *
     * @param type {@link ColumnType#IMAGE} or {@link ColumnType#IMAGE_FILE}
     * @param shape channels (1 is grey, 3 is red, green, blue), height and width
     * @param to receives the numbers from {@code at} on
     */
    static void read(InternalRow row, int place, ColumnType type, long[] shape, float[] to, int at)
            throws UnreadableException {
        BufferedImage image = resized(type == ColumnType.IMAGE ? ofStruct(row.getStruct(place, FIELDS))
                : ofFile(row.getBinary(place)), (int) shape[2], (int) shape[1]);
        int count = image.getWidth() * image.getHeight();
        int[] pixels = image.getRGB(0, 0, image.getWidth(), image.getHeight(), null, 0, image.getWidth());
        for (int i = 0; i < count; i++) {
            int red = pixels[i] >> 16 & 0xFF;
            int green = pixels[i] >> 8 & 0xFF;
            int blue = pixels[i] & 0xFF;
            if (shape[0] == 1) {
                to[at + i] = red == green && green == blue ? red : 0.299f * red + 0.587f * green + 0.114f * blue;
            } else {
                to[at + i] = red;
                to[at + count + i] = green;
                to[at + 2 * count + i] = blue;
            }
        }
    }

    private static BufferedImage ofFile(byte[] bytes) throws UnreadableException {
        BufferedImage image;
        try {
            image = decoded(bytes);
        } catch (IOException | RuntimeException e) { // readers throw either for damaged files
            throw new UnreadableException("holds an image file that cannot be read: " + (e.getMessage() == null ? e
                    : e.getMessage()));
        }
        BufferedImage rgb = new BufferedImage(image.getWidth(), image.getHeight(), BufferedImage.TYPE_INT_RGB);
        Raster raster = image.getRaster();
        if (raster.getNumBands() <= 2 && !(image.getColorModel() instanceof IndexColorModel)) {
            // Java treats grey as linear light; a conversion to RGB would change the numbers.
            int shift = Math.max(0, raster.getSampleModel().getSampleSize(0) - 8);
            for (int y = 0; y < image.getHeight(); y++) {
                for (int x = 0; x < image.getWidth(); x++) {
                    rgb.setRGB(x, y, (raster.getSample(x, y, 0) >> shift) * 0x010101);
                }
            }
        } else if (image.getColorModel().hasAlpha()) {
            // Drawing would mix the colours with black; Spark's source of images keeps them.
            int[] row = new int[image.getWidth()];
            for (int y = 0; y < image.getHeight(); y++) {
                image.getRGB(0, y, row.length, 1, row, 0, row.length);
                rgb.setRGB(0, y, row.length, 1, row, 0, row.length);
            }
        } else {
            draw(image, rgb);
        }
        return rgb;
    }

    /** Decodes the first image of a file; the size in its header is checked before memory is allocated. */
    private static BufferedImage decoded(byte[] bytes) throws IOException, UnreadableException {
        ImageInputStream stream = new MemoryCacheImageInputStream(new ByteArrayInputStream(bytes));
        Iterator<ImageReader> readers = ImageIO.getImageReaders(stream);
        if (!readers.hasNext()) {
            throw new UnreadableException("holds " + bytes.length + " bytes that are no image file; PNG, JPEG, GIF and "
                    + "BMP can be read");
        }
        ImageReader reader = readers.next();
        try {
            reader.setInput(stream, true, true);
            int width = reader.getWidth(0);
            int height = reader.getHeight(0);
            if ((long) width * height > MAX_PIXELS) {
                throw new UnreadableException("holds an image file of " + width + " x " + height + " pixels; up to "
                        + MAX_PIXELS + " can be read: scale it down");
            }
            if (reader.getFormatName().equals("png")) {
                PngFile.requireIntact(new ByteArrayInputStream(bytes));
            }
            List<String> truncated = new ArrayList<>();
            reader.addIIOReadWarningListener((source, warning) -> {
                // The reader of JPEG files fills what is missing with grey and only warns.
                if (warning.contains("runcated") || warning.contains("remature")) {
                    truncated.add(warning);
                }
            });
            BufferedImage image = reader.read(0);
            if (!truncated.isEmpty()) {
                throw new UnreadableException("holds an image file that cannot be read: " + truncated.getFirst());
            }
            return image;
        } finally {
            reader.dispose();
        }
    }

    /** Reads Spark's image structure: rows of pixels, blue first, as in OpenCV. */
    private static BufferedImage ofStruct(InternalRow image) throws UnreadableException {
        int height = image.getInt(HEIGHT);
        int width = image.getInt(WIDTH);
        int channels = image.getInt(CHANNELS);
        byte[] data = image.isNullAt(DATA) ? new byte[0] : image.getBinary(DATA);
        boolean known = channels == 1 || channels == 3 || channels == 4;
        if (!known || height <= 0 || width <= 0 || data.length != (long) height * width * channels) {
            throw new UnreadableException("holds an image of " + data.length + " bytes that should be " + height + " x "
                    + width + " pixels of 1, 3 or 4 channels, got " + channels + " (" + image.getUTF8String(ORIGIN)
                    + ")");
        }
        BufferedImage rgb = new BufferedImage(width, height, BufferedImage.TYPE_INT_RGB);
        for (int i = 0; i < height * width; i++) {
            int blue = data[i * channels] & 0xFF;
            int green = channels == 1 ? blue : data[i * channels + 1] & 0xFF;
            int red = channels == 1 ? blue : data[i * channels + 2] & 0xFF;
            rgb.setRGB(i % width, i / width, red << 16 | green << 8 | blue);
        }
        return rgb;
    }

    /** Scales bilinearly; halves large images repeatedly first, so that every pixel has influence. */
    private static BufferedImage resized(BufferedImage image, int width, int height) {
        BufferedImage current = image;
        while (current.getWidth() != width || current.getHeight() != height) {
            BufferedImage next = new BufferedImage(Math.max(width, current.getWidth() / 2),
                    Math.max(height, current.getHeight() / 2), BufferedImage.TYPE_INT_RGB);
            draw(current, next);
            current = next;
        }
        return current;
    }

    private static void draw(BufferedImage from, BufferedImage to) {
        Graphics2D graphics = to.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_INTERPOLATION, RenderingHints.VALUE_INTERPOLATION_BILINEAR);
        graphics.drawImage(from, 0, 0, to.getWidth(), to.getHeight(), null);
        graphics.dispose();
    }
}
