package dev.starling.nn.data;

import java.util.Collection;
import java.util.List;

/**
 * The objects of a collection as examples, written by a function.
 *
 * <pre>{@code
 * Dataset people = ListDataset.of(list, List.of(Field.of(DType.F32, 2), Field.of(DType.I64)), (person, example) -> {
 *     example.put(0, new float[] {person.age(), person.height()});
 *     example.put(1, person.group());
 * });
 * }</pre>
 *
 * @param <T> the type of the objects
 */
public final class ListDataset<T> implements Dataset {
    private final List<T> elements;
    private final List<Field> fields;
    private final ExampleWriter<? super T> writer;

    private ListDataset(List<T> elements, List<Field> fields, ExampleWriter<? super T> writer) {
        this.elements = elements;
        this.fields = fields;
        this.writer = writer;
    }

    /**
     * Returns the objects as examples; none may be {@code null}. The collection is copied, the objects are not.
     *
     * @param fields of an example: the model's input first, the target last
     * @param writer writes an object; several threads call it concurrently
     */
    public static <T> ListDataset<T> of(Collection<? extends T> elements, List<Field> fields,
            ExampleWriter<? super T> writer) {
        Table.requireNoNull(elements, "element");
        return new ListDataset<>(List.copyOf(elements), List.copyOf(fields), writer);
    }

    @Override
    public int size() {
        return elements.size();
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example target) throws Exception {
        writer.write(elements.get(Subset.requireIndex(index, size())), target);
    }
}
