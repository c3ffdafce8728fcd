package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;

/**
 * A data set with names for its fields.
 *
 * @param examples the examples
 * @param fields the fields with their names
 */
record NamedFields(Dataset examples, List<Field> fields) implements Dataset {
    static NamedFields of(Dataset examples, String... names) {
        List<Field> fields = examples.fields();
        if (names.length != fields.size() || new HashSet<>(List.of(names)).size() < names.length) {
            throw TensorException.argument("dataset", "the " + fields.size() + " fields need as many different names, "
                    + "got " + List.of(names), "name each field once, in the order of fields()");
        }
        List<Field> named = new ArrayList<>();
        for (int i = 0; i < names.length; i++) {
            named.add(fields.get(i).named(names[i]));
        }
        return new NamedFields(examples, List.copyOf(named));
    }

    @Override
    public int size() {
        return examples.size();
    }

    @Override
    public int length(int index) {
        return examples.length(index);
    }

    @Override
    public boolean isSequential() {
        return examples.isSequential();
    }

    @Override
    public void write(int index, Example target) throws Exception {
        examples.write(index, target);
    }
}
