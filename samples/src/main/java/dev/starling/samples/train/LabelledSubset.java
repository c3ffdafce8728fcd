package dev.starling.samples.train;

import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.tensor.Generator;
import java.util.List;

/**
 * All images in the first epochs, then only a few of them, repeated so that the size of an epoch stays the same.
 *
 * @param images all images
 * @param chosen indices of the few images
 * @param from the first epoch that contains only these
 */
record LabelledSubset(Dataset images, long[] chosen, int from) implements Dataset {
    /** Selects {@code count} images at random. */
    static LabelledSubset of(Dataset images, int count, int from, Generator generator) {
        if (count > images.size()) {
            throw new IllegalArgumentException("--labels must be at most the " + images.size()
                    + " training images, got " + count);
        }
        long[] chosen = new long[count];
        System.arraycopy(generator.order(images.size()), 0, chosen, 0, count);
        return new LabelledSubset(images, chosen, from);
    }

    @Override
    public int size() {
        return images.size();
    }

    @Override
    public List<Field> fields() {
        return images.fields();
    }

    @Override
    public void write(int index, Example target) throws Exception {
        images.write(target.epoch() < from ? index : (int) chosen[index % chosen.length], target);
    }
}
