package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Simd;

/**
 * The machine code of primitives on vectors, for one of the processor's instruction sets. Values are in registers from
 * {@link #firstRegister} and {@link #firstMask} on.
 */
interface VectorCode {
    /** Registers for what a primitive needs for itself. */
    int A = 0;
    int B = 1;
    int C = 2;

    /** Returns the number of elements of a vector. */
    int width();

    /** Returns the bytes of a vector that is kept in memory. */
    int vectorBytes();

    int firstRegister();

    int registers();

    /** Returns the number of the first mask register that holds a value; bools are vectors if there is none. */
    int firstMask();

    int masks();

    /** Returns whether a constant, parameter or broadcast operand is kept in memory as one element. */
    boolean repeatsElements();

    /** Returns whether the last elements of a row are loaded and stored under a mask, not through a buffer. */
    boolean masksLast();

    /** Sets the mask of a row's last elements, of which there are {@code count} (a general register), modulo width. */
    void limit(int count);

    /** Loads {@code width()} elements; only the last ones of the row if {@code last}. */
    void load(DType type, Address address, int target, boolean last);

    /** Stores the value whose number and operand are given. */
    void store(DType type, int value, Address address, Operand operand, boolean last);

    /** Copies a value of a lane into a register. */
    void move(Lane lane, int target, Operand value);

    /** Copies those elements of F32 into a register that are the last ones of a row; RDX has their number. */
    void moveLast(int target, Operand value);

    /** Moves the upper half of the low {@code bits} bits of a vector to the bottom. */
    void moveUpper(int bits, int target, int source);

    /** Stores the first element of F32. */
    void storeFirst(Address address, int register);

    /** Stores a register in memory that is reserved for it. */
    void spill(Lane lane, Address address, int register);

    /** Jumps if a bool holds for an element. */
    void jumpIfAny(int value, Operand bool, int label);

    /** Any primitive that computes; the target may be the register of an operand. */
    void apply(Node node, Lane lane, int target, Operand a, Operand b, Operand c);

    /** {@code target = op(a, b)}, where b may be in memory. */
    void emit(Simd op, Lane lane, int target, int a, Operand b);

    static Simd pick(Lane lane, Simd f32, Simd f64, Simd i32, Simd i64) {
        return switch (lane) {
            case F32 -> f32;
            case F64 -> f64;
            case I32, BOOL -> i32;
            case I64 -> i64;
        };
    }

    /** Returns the vector register that holds a value; one in memory is loaded into {@code spare}. */
    default int vector(Lane lane, Operand value, int spare) {
        if (value.isMemory()) {
            move(lane, spare, value);
            return spare;
        }
        return value.register();
    }

    default void binary(Lane lane, int target, Operand a, Operand b, boolean commutes, Simd f32, Simd f64, Simd i32,
            Simd i64) {
        Simd op = pick(lane, f32, f64, i32, i64);
        if (commutes && a.isMemory() && !b.isMemory()) {
            emit(op, lane, target, b.register(), a);
        } else {
            emit(op, lane, target, vector(lane, a, A), b);
        }
    }

    /** The form of the instruction overwrites an operand whose register is the target, if there is one. */
    default void fma(Lane lane, int target, Operand first, Operand second, Operand addend) {
        boolean swap = first.isMemory() && !second.isMemory();
        int a = vector(lane, swap ? second : first, A);
        Operand b = swap ? first : second;
        if (b.isMemory() && addend.isMemory()) {
            b = Operand.register(vector(lane, b, B));
        }
        boolean wide = lane.bytes == 8;
        if (!b.isMemory() && target == b.register()) {
            emit(wide ? Simd.FMADD213PD : Simd.FMADD213PS, lane, target, a, addend);
        } else if (target != a && !addend.isMemory() && target == addend.register()) {
            emit(wide ? Simd.FMADD231PD : Simd.FMADD231PS, lane, target, a, b);
        } else {
            move(lane, target, Operand.register(a));
            if (b.isMemory()) {
                emit(wide ? Simd.FMADD132PD : Simd.FMADD132PS, lane, target, addend.register(), b);
            } else {
                emit(wide ? Simd.FMADD213PD : Simd.FMADD213PS, lane, target, b.register(), addend);
            }
        }
    }
}
