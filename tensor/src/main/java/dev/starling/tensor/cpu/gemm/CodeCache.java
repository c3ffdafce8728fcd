package dev.starling.tensor.cpu.gemm;

import dev.starling.tensor.cpu.x86.MachineCode;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/** Variants of a function, by number, each assembled when it is needed first. */
final class CodeCache {
    private final AtomicReferenceArray<@Nullable MachineCode> variants;
    private final IntFunction<MachineCode> assembler;

    CodeCache(int size, IntFunction<MachineCode> assembler) {
        variants = new AtomicReferenceArray<>(size);
        this.assembler = assembler;
    }

    MachineCode get(int variant) {
        MachineCode known = variants.get(variant);
        return known != null ? known : assemble(variant);
    }

    private synchronized MachineCode assemble(int variant) {
        MachineCode known = variants.get(variant);
        if (known == null) {
            known = assembler.apply(variant);
            variants.set(variant, known);
        }
        return known;
    }
}
