package dev.starling.tensor.cpu.jit;

import static java.lang.constant.ConstantDescs.CD_Object;
import static java.lang.constant.ConstantDescs.CD_long;
import static java.lang.constant.ConstantDescs.CD_void;
import static java.lang.constant.ConstantDescs.INIT_NAME;
import static java.lang.constant.ConstantDescs.MTD_void;

import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.AccessFlag;
import java.util.List;

/**
 * Writes the class of a {@link Kernel}: a static method that loops over single elements and, if the body can be
 * vectorised, another that loops over vectors and leaves the rest of each row to the first.
 */
final class KernelWriter {
    private static final ClassDesc KERNEL = Kernel.class.describeConstable().orElseThrow();
    static final ClassDesc FRAME = Frame.class.describeConstable().orElseThrow();
    static final ClassDesc SELF = ClassDesc.of(KernelWriter.class.getPackageName(), "GeneratedKernel");
    static final MethodTypeDesc RUN = MethodTypeDesc.of(CD_void, FRAME, CD_long, CD_long, CD_long,
            CD_long);
    private static final int STATIC = ClassFile.ACC_PRIVATE | ClassFile.ACC_STATIC;

    static {
        Vectors.load();
    }

    private KernelWriter() { }

    /** Generates a kernel for operands with the given accesses; {@code vectorBits} 0 generates none with vectors. */
    static Kernel write(Expression expression, LoopBody body, List<Access> accesses, int vectorBits) {
        int width = accesses.contains(Access.STRIDED) ? 0 : VectorInstructions.width(body, expression, vectorBits);
        byte[] bytes = ClassFile.of().build(SELF, type -> {
            type.withFlags(AccessFlag.FINAL, AccessFlag.SYNTHETIC);
            type.withInterfaceSymbols(KERNEL);
            type.withMethodBody(INIT_NAME, MTD_void, 0,
                    code -> code.aload(0).invokespecial(CD_Object, INIT_NAME, MTD_void).return_());
            type.withMethodBody("scalar", RUN, STATIC, code ->
                    new LoopWriter(code, expression, body, accesses, new ScalarInstructions(code)).write());
            if (width > 0) {
                type.withMethodBody("vector", RUN, STATIC, code -> new LoopWriter(code, expression, body, accesses,
                        new VectorInstructions(code, body, width)).write());
            }
            type.withMethodBody("run", RUN, ClassFile.ACC_PUBLIC, code -> writeRun(code, width));
            type.withMethodBody("runElements", RUN, ClassFile.ACC_PUBLIC, code -> writeRun(code, 0));
        });
        try {
            MethodHandles.Lookup hidden = MethodHandles.lookup().defineHiddenClass(bytes, true);
            Kernel kernel = (Kernel) hidden.lookupClass().getDeclaredConstructor().newInstance();
            return new TieredKernel(kernel, width > 0);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("cannot load a generated kernel", e);
        }
    }

    /** Rows shorter than a vector are computed element by element. */
    private static void writeRun(CodeBuilder code, int width) {
        if (width > 0) {
            Label few = code.newLabel();
            code.lload(8).lload(6).lsub().loadConstant((long) width).lcmp().iflt(few);
            pushArguments(code).invokestatic(SELF, "vector", RUN).return_().labelBinding(few);
        }
        pushArguments(code).invokestatic(SELF, "scalar", RUN).return_();
    }

    private static CodeBuilder pushArguments(CodeBuilder code) {
        return code.aload(1).lload(2).lload(4).lload(6).lload(8);
    }
}
