package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/** The examples of several data sets with equal fields, one data set after the other. */
public final class ConcatDataset implements Dataset {
    private final List<Dataset> parts;
    /** The number of examples of the parts up to each part. */
    private final int[] ends;

    private ConcatDataset(List<Dataset> parts) {
        this.parts = parts;
        ends = new int[parts.size()];
        long end = 0;
        for (int i = 0; i < ends.length; i++) {
            end += parts.get(i).size();
            if (!parts.get(i).fields().equals(parts.get(0).fields()) || end > Integer.MAX_VALUE) {
                throw TensorException.argument("concatenation", "data sets must have equal fields and less than 2^31 "
                        + "examples, got " + parts.get(0).fields() + ", " + parts.get(i).fields() + " and " + end,
                        "convert the fields with MapDataset, or leave out examples");
            }
            ends[i] = (int) end;
        }
    }

    /** Returns the examples of data sets, in this order. */
    public static ConcatDataset of(Dataset... parts) {
        if (parts.length == 0) {
            throw TensorException.argument("concatenation", "needs a data set, got none", "pass data sets");
        }
        return new ConcatDataset(List.of(parts));
    }

    @Override
    public int size() {
        return ends[ends.length - 1];
    }

    @Override
    public List<Field> fields() {
        return parts.get(0).fields();
    }

    @Override
    public boolean isSequential() {
        return parts.stream().anyMatch(Dataset::isSequential);
    }

    @Override
    public int length(int index) {
        int part = part(index);
        return parts.get(part).length(index - first(part));
    }

    @Override
    public void write(int index, Example target) throws Exception {
        int part = part(index);
        parts.get(part).write(index - first(part), target);
    }

    private int first(int part) {
        return part == 0 ? 0 : ends[part - 1];
    }

    private int part(int index) {
        int found = Arrays.binarySearch(ends, Subset.requireIndex(index, size()) + 1);
        int part = found < 0 ? -found - 1 : found;
        while (part > 0 && ends[part - 1] > index) {
            part--;
        }
        return part;
    }
}
