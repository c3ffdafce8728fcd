package dev.starling.nn;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.invoke.MethodHandle;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.UnaryOperator;

/**
 * A record type all of whose components are tensors, such as the inputs of a {@link Model}. The type may be private or
 * local; in a named module, its package must be open to {@code dev.starling.nn} unless it is public and exported.
 * Immutable.
 *
 * @param <R> the record
 */
public final class RecordType<R extends Record> {
    private static final ClassValue<RecordType<?>> TYPES = new ClassValue<>() {
        @Override
        protected RecordType<?> computeValue(Class<?> type) {
            if (!type.isRecord()) {
                throw TensorException.argument("record", type.getSimpleName() + " is no record",
                        "declare it as a record of tensors");
            }
            return new RecordType<>(type.asSubclass(Record.class));
        }
    };

    private final Class<R> type;
    private final List<String> names;
    private final MethodHandle creator;
    private final MethodHandle[] readers;

    private RecordType(Class<R> type) {
        this.type = type;
        RecordComponent[] components = Objects.requireNonNull(type.getRecordComponents());
        List<String> found = new ArrayList<>();
        readers = new MethodHandle[components.length];
        Class<?>[] tensors = new Class<?>[components.length];
        for (int i = 0; i < components.length; i++) {
            if (components[i].getType() != Tensor.class) {
                throw TensorException.argument("record", type.getSimpleName() + "." + components[i].getName() + " is a "
                        + components[i].getType().getSimpleName(), "use components of type Tensor only");
            }
            found.add(components[i].getName());
            readers[i] = RecordParts.reader(components[i]);
            tensors[i] = Tensor.class;
        }
        if (found.isEmpty()) {
            throw TensorException.argument("record", type.getSimpleName() + " has no components",
                    "add at least one component of type Tensor");
        }
        names = List.copyOf(found);
        creator = RecordParts.creator(type, tensors);
    }

    /**
     * Returns the type of a record's class.
     *
     * @throws TensorException if a component is no tensor, or the record is not accessible
     */
    @SuppressWarnings("unchecked")
    public static <R extends Record> RecordType<R> of(Class<R> type) {
        if (!type.isRecord()) {
            throw TensorException.argument("record", type.getSimpleName() + " is no record",
                    "declare it as record " + type.getSimpleName() + "(Tensor ..)");
        }
        return (RecordType<R>) TYPES.get(type);
    }

    /** Returns the type of a record. */
    @SuppressWarnings("unchecked")
    public static <R extends Record> RecordType<R> of(R record) {
        return (RecordType<R>) TYPES.get(record.getClass());
    }

    /** Returns the names of the components in their order. */
    public List<String> names() {
        return names;
    }

    /** Creates a record of tensors, one for each component. */
    public R create(Tensor... tensors) {
        if (tensors.length != readers.length) {
            throw TensorException.argument("record", this + " has " + readers.length + " components, got "
                    + tensors.length + " tensors", "pass one tensor for each component");
        }
        try {
            return type.cast((Object) creator.invokeExact((Object[]) tensors.clone()));
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError("the constructor of a record throws no checked exception", e);
        }
    }

    /**
     * Returns the tensors of a record in the order of its components.
     *
     * @throws TensorException if one of them is {@code null}
     */
    public Tensor[] tensors(R record) {
        Tensor[] tensors = new Tensor[readers.length];
        for (int i = 0; i < tensors.length; i++) {
            if (!(RecordParts.read(readers[i], record) instanceof Tensor tensor)) {
                throw TensorException.argument("record", type.getSimpleName() + "." + names.get(i) + " is null",
                        "give each component a tensor");
            }
            tensors[i] = tensor;
        }
        return tensors;
    }

    /** Returns a record of the results of {@code function} for the tensors of another one. */
    public R map(R record, UnaryOperator<Tensor> function) {
        Tensor[] tensors = tensors(record);
        for (int i = 0; i < tensors.length; i++) {
            tensors[i] = function.apply(tensors[i]);
        }
        return create(tensors);
    }

    /** Returns for example {@code Input(ids, numbers)}. */
    @Override
    public String toString() {
        return type.getSimpleName() + "(" + String.join(", ", names) + ")";
    }
}
