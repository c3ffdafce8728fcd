package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Objects;

/**
 * Images of one size with a class label each, as unsigned bytes in two flat arrays. The arrays are shared, not copied.
 *
 * @param channels colour planes of an image: 1 for grey, 3 for red-green-blue
 * @param height rows of an image
 * @param width columns of an image
 * @param classes number of classes; every label is in {@code [0, classes)}
 * @param pixels unsigned bytes, {@code [N, C, H, W]}
 * @param labels one unsigned byte per image, {@code [N]}
 */
public record LabelledImages(int channels, int height, int width, int classes, byte[] pixels, byte[] labels) {
    /**
     * Checks that the lengths of the arrays match and that every label is a class.
     *
     * @throws TensorException if they do not
     */
    public LabelledImages {
        Objects.requireNonNull(pixels, "pixels");
        Objects.requireNonNull(labels, "labels");
        if (channels < 1 || height < 1 || width < 1 || classes < 1 || classes > 256) {
            throw TensorException.argument("images",
                    "expected positive channels, height and width and 1 to 256 classes,"
                    + " found " + channels + ", " + height + ", " + width + " and " + classes, "correct them");
        }
        if (pixels.length != (long) labels.length * channels * height * width) {
            throw TensorException.argument("images", "expected labels x channels x height x width = " + labels.length
                    + "x" + channels + "x" + height + "x" + width + " pixels, found " + pixels.length,
                    "pass the pixels of each labelled image");
        }
        int wrong = firstLabelOutside(labels, classes);
        if (wrong >= 0) {
            throw TensorException.argument("images", "expected labels below " + classes + ", found "
                    + Byte.toUnsignedInt(labels[wrong]) + " at image " + wrong,
                    "increase the number of classes or correct the labels");
        }
    }

    /** Returns the number of images, N. */
    public int count() {
        return labels.length;
    }

    /** Returns the bytes of one image, C·H·W. */
    public int imageSize() {
        return channels * height * width;
    }

    /**
     * Returns the class of an image.
     *
     * @param image its index, in {@code [0, count())}
     * @throws TensorException if there is no such image
     */
    public int label(int image) {
        return Byte.toUnsignedInt(labels[checked(image)]);
    }

    /**
     * Returns the offset of an image in {@link #pixels()}.
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
                    "image " + image + " does not exist, there are " + labels.length, "use a lower index");
        }
        return image;
    }

    /** Returns the index of the first label that is not a class, or -1. */
    static int firstLabelOutside(byte[] labels, int classes) {
        for (int i = 0; i < labels.length; i++) {
            if (Byte.toUnsignedInt(labels[i]) >= classes) {
                return i;
            }
        }
        return -1;
    }
}
