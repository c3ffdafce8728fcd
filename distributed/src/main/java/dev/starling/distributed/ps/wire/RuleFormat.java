package dev.starling.distributed.ps.wire;

import dev.starling.nn.optim.TensorRule;
import dev.starling.tensor.op.Rule;
import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.RecordComponent;
import java.util.List;
import java.util.Objects;

/** Rules as bytes: the name of the record, the number of its components, and the components. */
final class RuleFormat {
    /** The rules of version 2, which wrote their positions in this list, and the numbers of their components. */
    private static final List<String> VERSION_2 = List.of("Sgd", "Adam", "Adagrad");
    private static final int[] COMPONENTS_OF_VERSION_2 = {4, 5, 2};

    private RuleFormat() { }

    /** Writes a {@link Rule} or a {@link TensorRule}. */
    static void write(Object rule, DataOutput out) throws IOException {
        RecordComponent[] components = rule.getClass().getRecordComponents();
        out.writeUTF(rule.getClass().getSimpleName());
        out.writeByte(components.length);
        try {
            for (RecordComponent component : components) {
                Object value = component.getAccessor().invoke(rule);
                if (value instanceof Boolean flag) {
                    out.writeBoolean(flag);
                } else {
                    out.writeDouble((double) value);
                }
            }
        } catch (ReflectiveOperationException e) {
            throw new AssertionError("a rule's components are public", e);
        }
    }

    /** Reads a rule. Components that its version did not have are 0. */
    static Rule read(DataInput in, int version) throws IOException {
        int position = version == 2 ? in.readByte() : 0;
        if (position < 0 || position >= VERSION_2.size()) {
            throw new IOException("unknown rule " + position);
        }
        String name = version == 2 ? VERSION_2.get(position) : in.readUTF();
        int written = version == 2 ? COMPONENTS_OF_VERSION_2[position] : in.readByte();
        return (Rule) read(in, Rule.class, name, written);
    }

    /** Reads a rule that needs a parameter as a whole. Components that its version did not have are 0. */
    static TensorRule readWhole(DataInput in) throws IOException {
        return (TensorRule) read(in, TensorRule.class, in.readUTF(), in.readByte());
    }

    private static Object read(DataInput in, Class<?> kind, String name, int written) throws IOException {
        for (Class<?> type : kind.getPermittedSubclasses()) {
            RecordComponent[] components = type.getRecordComponents();
            if (type.getSimpleName().equals(name) && written >= 0 && written <= components.length) {
                return read(in, type, components, written);
            }
        }
        throw new IOException("unknown rule " + name + " of " + written + " settings; use the same version of "
                + "Starling everywhere");
    }

    private static Object read(DataInput in, Class<?> type, RecordComponent[] components, int written)
            throws IOException {
        Class<?>[] types = new Class<?>[components.length];
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            types[i] = components[i].getType();
            if (types[i] == boolean.class) {
                values[i] = i < written && in.readBoolean();
            } else {
                values[i] = i < written ? in.readDouble() : 0.0;
            }
        }
        try {
            return type.getConstructor(types).newInstance(values);
        } catch (InvocationTargetException e) {
            Throwable cause = Objects.requireNonNull(e.getCause());
            throw new IOException(type.getSimpleName() + " with settings out of range: " + cause.getMessage(), cause);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError("the constructor of a public record is public", e);
        }
    }
}
