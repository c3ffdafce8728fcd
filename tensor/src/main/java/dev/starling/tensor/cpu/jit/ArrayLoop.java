package dev.starling.tensor.cpu.jit;

import static java.lang.constant.ConstantDescs.CD_Object;
import static java.lang.constant.ConstantDescs.CD_double;
import static java.lang.constant.ConstantDescs.CD_float;
import static java.lang.constant.ConstantDescs.CD_int;
import static java.lang.constant.ConstantDescs.CD_void;
import static java.lang.constant.ConstantDescs.INIT_NAME;
import static java.lang.constant.ConstantDescs.MTD_void;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.op.scalar.Formula;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.AccessFlag;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A formula compiled to a loop over arrays of floats, for memory on the JVM's heap. It has the bits of the
 * {@link FusedLoop} of the formula. All arrays have the loop's index: so the JVM's compiler vectorises it.
 */
public interface ArrayLoop {
    /**
     * Computes the first {@code count} elements. An array is read before the same element of it is written.
     *
     * @param arrays the operands, of which no two are the same array
     * @param parameters the values of the formula's parameters
     */
    void run(float[][] arrays, double[] parameters, int count);

    /**
     * Returns the loop of a formula; equal formulas share one for the life of the process.
     *
     * @param targets by output, the number of the operand that it replaces
     */
    static ArrayLoop of(Formula formula, int... targets) {
        return Writer.LOOPS.computeIfAbsent(new Writer.Key(formula, Arrays.stream(targets).boxed().toList()),
                key -> new Writer(formula, targets).write());
    }

    /** Writes the class of a loop. */
    final class Writer {
        private static final ConcurrentHashMap<Key, ArrayLoop> LOOPS = new ConcurrentHashMap<>();
        private static final ClassDesc SELF = ClassDesc.of(Writer.class.getPackageName(), "GeneratedArrayLoop");
        private static final MethodTypeDesc RUN = MethodTypeDesc.of(CD_void, CD_float.arrayType(2),
                CD_double.arrayType(), CD_int);
        private static final int ARRAYS = 1;
        private static final int PARAMETERS = 2;
        private static final int COUNT = 3;

        private final int operands;
        private final int[] targets;
        private final LoopBody body;
        private int[] arrays = {};
        private int[] slots = {};
        private int index;

        private record Key(Formula formula, List<Integer> targets) { }

        private Writer(Formula formula, int[] targets) {
            this.targets = targets;
            operands = formula.operands();
            DType[] results = new DType[targets.length];
            Arrays.fill(results, DType.F32);
            body = Lowering.lower(Objects.requireNonNull(
                    FormulaExpression.of(formula, Collections.nCopies(operands, DType.F32), results)));
        }

        private ArrayLoop write() {
            byte[] bytes = ClassFile.of().build(SELF, type -> type.withFlags(AccessFlag.FINAL, AccessFlag.SYNTHETIC)
                    .withInterfaceSymbols(ArrayLoop.class.describeConstable().orElseThrow())
                    .withMethodBody(INIT_NAME, MTD_void, 0,
                            code -> code.aload(0).invokespecial(CD_Object, INIT_NAME, MTD_void).return_())
                    .withMethodBody("run", RUN, ClassFile.ACC_PUBLIC, this::writeRun));
            try {
                MethodHandles.Lookup hidden = MethodHandles.lookup().defineHiddenClass(bytes, true);
                return (ArrayLoop) hidden.lookupClass().getDeclaredConstructor().newInstance();
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("cannot load a generated loop", e);
            }
        }

        private void writeRun(CodeBuilder code) {
            ScalarInstructions set = new ScalarInstructions(code);
            arrays = new int[operands];
            for (int k = 0; k < operands; k++) {
                arrays[k] = code.allocateLocal(TypeKind.REFERENCE);
                code.aload(ARRAYS).loadConstant(k).aaload().astore(arrays[k]);
            }
            slots = new int[body.nodes().size()];
            for (int value = 0; value < slots.length; value++) {
                Node node = body.nodes().get(value);
                if (node.primitive() == Primitive.PARAMETER) {
                    code.aload(PARAMETERS).loadConstant((int) node.immediate()).daload().d2f();
                    store(code, set, value);
                }
            }
            index = code.allocateLocal(TypeKind.INT);
            Label loop = code.newLabel();
            Label done = code.newLabel();
            code.iconst_0().istore(index);
            code.labelBinding(loop).iload(index).iload(COUNT).if_icmpge(done);
            for (int value = 0; value < slots.length; value++) {
                write(code, set, value);
            }
            code.iinc(index, 1).goto_(loop).labelBinding(done).return_();
        }

        private void write(CodeBuilder code, ScalarInstructions set, int value) {
            Node node = body.nodes().get(value);
            switch (node.primitive()) {
                case PARAMETER, CONSTANT -> { }
                case LOAD -> {
                    code.aload(arrays[(int) node.immediate()]).iload(index).faload();
                    store(code, set, value);
                }
                case STORE -> {
                    code.aload(arrays[targets[(int) node.immediate() - operands]]).iload(index);
                    push(code, set, node.a());
                    code.fastore();
                }
                default -> {
                    set.apply(node, body.lane(node.a()), operand -> push(code, set, operand));
                    store(code, set, value);
                }
            }
        }

        private void store(CodeBuilder code, ScalarInstructions set, int value) {
            TypeKind kind = set.kind(body.lane(value));
            slots[value] = code.allocateLocal(kind);
            code.storeLocal(kind, slots[value]);
        }

        private void push(CodeBuilder code, ScalarInstructions set, int value) {
            Node node = body.nodes().get(value);
            if (node.primitive() == Primitive.CONSTANT) {
                set.constant(node.lane(), node.immediate());
            } else {
                code.loadLocal(set.kind(node.lane()), slots[value]);
            }
        }
    }
}
