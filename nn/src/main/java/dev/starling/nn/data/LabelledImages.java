package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Objects;

/**
 * Images of one size with a class label each, as unsigned bytes in two flat arrays that are shared, not copied.
 *
 * @param channels colour planes of an image: 1 grey, 3 red-green-blue
 * @param height rows of an image
 * @param width columns of an image
 * @param classes number of classes; every label is in {@code [0, classes)}
 * @param pixels unsigned bytes, {@code [N, C, H, W]}
 * @param labels one unsigned byte an image, {@code [N]}
 */
public record LabelledImages(int channels, int height, int width, int classes, byte[] pixels, byte[] labels) {
    /**
     * Checks that the arrays fit each other and that every label names a class.
     *
     * @throws TensorException if they do not
     */
    public LabelledImages {
        Objects.requireNonNull(pixels, "pixels");
        Objects.requireNonNull(labels, "labels");
        if (channels < 1 || height < 1 || width < 1 || classes < 1 || classes > 256) {
            throw TensorException.argument("images",
                    "expected positive channels, height and width and 1 to 256 classes,"
                    + " found " + channels + ", " + height + ", " + width + " and " + classes, "change them");
        }
        if (pixels.length != (long) labels.length * channels * height * width) {
            throw TensorException.argument("images", "expected labels x channels x height x width = " + labels.length
                    + "x" + channels + "x" + height + "x" + width + " pixels, found " + pixels.length,
                    "give the pixels of each labelled image");
        }
        int wrong = firstLabelOutside(labels, classes);
        if (wrong >= 0) {
            throw TensorException.argument("images", "expected labels below " + classes + ", found "
                    + Byte.toUnsignedInt(labels[wrong]) + " at image " + wrong, "give more classes or other labels");
        }
    }

    /** The number of images, N. */
    public int count() {
        return labels.length;
    }

    /** Bytes of one image, C·H·W. */
    public int imageSize() {
        return channels * height * width;
    }

    /**
     * The class of an image.
     *
     * @param image its index, in {@code [0, count())}
     * @throws TensorException if there is no such image
     */
    public int label(int image) {
        return Byte.toUnsignedInt(labels[checked(image)]);
    }

    /**
     * Where an image begins in {@link #pixels()}.
     *
     * @param image its index, in {@code [0, count())}
     * @throws TensorException if there is no such image
     */
    public int offset(int image) {
        return checked(image) * imageSize();
    }

    private int checked(int image) {
        if (image < 0 || image >= labels.length) {
            throw new TensorException(TensorException.Problem.INDEX, "images", List.of(),
                    "there must be an image " + image + ", got " + labels.length, "use an index below that");
        }
        return image;
    }

    /** The index of the first label that names no class, or -1. */
    static int firstLabelOutside(byte[] labels, int classes) {
        for (int i = 0; i < labels.length; i++) {
            if (Byte.toUnsignedInt(labels[i]) >= classes) {
                return i;
            }
        }
        return -1;
    }
}
