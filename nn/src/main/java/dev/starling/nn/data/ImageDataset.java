package dev.starling.nn.data;

import dev.starling.tensor.DType;
import java.util.List;

/**
 * Labelled images as examples with two fields: a normalised, possibly augmented image f32 {@code [C, H, W]} and its
 * class, i64.
 */
public final class ImageDataset implements Dataset {
    private final LabelledImages images;
    private final Augment augment;
    private final List<Field> fields;

    private ImageDataset(LabelledImages images, Augment augment) {
        augment.requireSize(images);
        this.images = images;
        this.augment = augment;
        fields = List.of(Field.of(DType.F32, images.channels(), images.height(), images.width()), Field.of(DType.I64));
    }

    /** Returns a data set of images, which must have the size that {@code augment} expects. */
    public static ImageDataset of(LabelledImages images, Augment augment) {
        return new ImageDataset(images, augment);
    }

    @Override
    public int size() {
        return images.count();
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example target) {
        float[] pixels = target.floats(0);
        augment.write(target.seed(), target.epoch(), index, images.pixels(), images.offset(index), pixels, 0);
        target.put(0, pixels);
        target.put(1, images.label(index));
    }
}
