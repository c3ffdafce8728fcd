package dev.starling.tensor.cpu.jit;

import static dev.starling.tensor.cpu.x86.Assembler.RAX;
import static dev.starling.tensor.cpu.x86.Assembler.RCX;
import static dev.starling.tensor.cpu.x86.Assembler.RDX;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.cpu.x86.Address;
import dev.starling.tensor.cpu.x86.Assembler.Condition;
import dev.starling.tensor.cpu.x86.Assembler.General;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.Simd;
import java.util.Arrays;
import java.util.List;

/**
 * Assembles the loops of a kernel. Values live in registers from their instruction to their last use; where there are
 * too few, the value that is needed last moves to the stack. Constants and what is the same for a whole call or row
 * stay in memory, and in registers that the loop leaves unused.
 */
final class NativeWriter {
    private final Assembler code;
    private final List<DType> types;
    private final LoopBody body;
    private final List<Access> accesses;
    private final VectorCode set;
    private final Liveness liveness;
    private final NativeFrame frame;
    private final RegisterFile vectors;
    private final RegisterFile masks;
    private final boolean strided;
    private final int[] registers;
    /** Where a value lies in memory, and whether as one element that serves all. */
    private final Address[] places;
    private final boolean[] repeated;
    private final Address[] buffers;
    private final int stop;
    private int level;

    /** Makes a writer of loops whose operands have the given types and accesses. */
    NativeWriter(Assembler code, List<DType> types, LoopBody body, List<Access> accesses, VectorCode set) {
        this.code = code;
        this.types = types;
        this.body = body;
        this.accesses = accesses;
        this.set = set;
        liveness = new Liveness(body, accesses);
        frame = new NativeFrame(code, types, accesses);
        vectors = new RegisterFile(set.firstRegister(), set.registers());
        masks = new RegisterFile(set.firstMask(), set.masks());
        strided = accesses.contains(Access.STRIDED);
        int count = body.nodes().size();
        registers = new int[count];
        Arrays.fill(registers, -1);
        places = new Address[count];
        repeated = new boolean[count];
        buffers = new Address[accesses.size()];
        stop = code.label();
    }

    void write() {
        int rows = code.label();
        int done = code.label();
        frame.enter();
        for (int k = 0; k < buffers.length; k++) {
            buffers[k] = isBuffered(true) && accesses.get(k) != Access.BROADCAST ? frame.reserve(64) : null;
        }
        code.general(General.TEST, Assembler.RSI, Assembler.RSI);
        code.jump(Condition.ZERO, done);
        if (!strided) {
            set.limit(NativeFrame.COLUMNS);
        }
        writeInvariants(Liveness.CALL);
        code.bind(rows);
        writeInvariants(Liveness.ROW);
        vectors.clear(true);
        startAccumulators();
        pinInvariants();
        code.general(General.XOR, RCX, RCX);
        if (strided) {
            writeStrided();
        } else {
            writeContiguous();
        }
        endAccumulators();
        frame.nextRow();
        code.add(Assembler.RSI, -1);
        code.jump(Condition.NOT_ZERO, rows);
        code.bind(done);
        code.general(General.XOR, RCX, RCX);
        code.bind(stop);
        frame.leave();
    }

    private void writeContiguous() {
        int loop = code.label();
        int rest = code.label();
        int next = code.label();
        code.general(General.MOVE, RDX, NativeFrame.COLUMNS);
        code.and(RDX, -set.width());
        code.jump(Condition.ZERO, rest);
        code.bind(loop);
        writeSection(Liveness.COLUMN, false);
        code.add(RCX, set.width());
        code.general(General.COMPARE, RCX, RDX);
        code.jump(Condition.BELOW, loop);
        code.bind(rest);
        code.general(General.COMPARE, RCX, NativeFrame.COLUMNS);
        code.jump(Condition.ABOVE_OR_EQUAL, next);
        if (!set.masksLast()) {
            code.general(General.MOVE, RDX, NativeFrame.COLUMNS);
            code.general(General.SUB, RDX, RCX);
        }
        writeSection(Liveness.COLUMN, true);
        code.bind(next);
    }

    private void writeStrided() {
        int loop = code.label();
        int full = code.label();
        int next = code.label();
        code.bind(loop);
        code.general(General.MOVE, RDX, NativeFrame.COLUMNS);
        code.general(General.SUB, RDX, RCX);
        code.jump(Condition.ZERO, next);
        code.set(RAX, set.width());
        code.general(General.COMPARE, RDX, RAX);
        code.jump(Condition.BELOW, full);
        code.general(General.MOVE, RDX, RAX);
        code.bind(full);
        writeSection(Liveness.COLUMN, true);
        code.general(General.ADD, RCX, RDX);
        code.jump(Condition.ALWAYS, loop);
        code.bind(next);
    }

    private void writeInvariants(int which) {
        for (int v = 0; v < registers.length; v++) {
            Node node = body.nodes().get(v);
            if (node.primitive() == Primitive.CONSTANT && which == Liveness.CALL) {
                places[v] = constant(node.lane(), node.immediate());
                repeated[v] = set.repeatsElements();
            }
        }
        writeSection(which, false);
    }

    private Address constant(Lane lane, long bits) {
        long word = switch (lane) {
            case F32, I32 -> bits << 32 | bits & 0xFFFFFFFFL;
            case BOOL -> bits != 0 ? -1 : 0;
            case F64, I64 -> bits;
        };
        return set.repeatsElements() ? code.constant(word) : code.constant(word, word, word, word);
    }

    /** Computes the values of a level; {@code last} means the last elements of a row. */
    private void writeSection(int section, boolean last) {
        level = section;
        int mark = frame.mark();
        for (int v = 0; v < registers.length; v++) {
            if (liveness.computes(v, section)) {
                define(v, body.nodes().get(v), last);
            }
        }
        vectors.clear(false);
        masks.clear(false);
        for (int v = 0; v < registers.length; v++) {
            if (registers[v] >= 0 && liveness.levelOf(v) == section) {
                registers[v] = -1;
            }
            if (section == Liveness.COLUMN && liveness.levelOf(v) == section) {
                places[v] = null;
            }
        }
        if (section == Liveness.COLUMN) {
            frame.reset(mark);
        }
    }

    private void define(int v, Node node, boolean last) {
        switch (node.primitive()) {
            case PARAMETER -> keepParameter(v, node);
            case LOAD -> load(v, node, last);
            case STORE -> {
                store(v, node, last);
                release(v);
            }
            case UPDATE -> {
                int accumulator = registers[liveness.operand(v, 1)];
                if (last) {
                    set.moveLast(accumulator, operand(v, 0));
                } else {
                    set.move(Lane.F32, accumulator, operand(v, 0));
                }
                release(v);
            }
            case RARE -> {
                set.jumpIfAny(liveness.operand(v, 0), operand(v, 0), stop);
                release(v);
            }
            default -> {
                Operand a = operand(v, 0);
                Operand b = operand(v, 1);
                Operand c = operand(v, 2);
                release(v);
                int target = allocate(v, node.lane(), a, b, c);
                set.apply(node, body.lane(node.a()), target, a, b, c);
                keepInvariant(v, node.lane());
            }
        }
    }

    private RegisterFile file(Lane lane) {
        return lane == Lane.BOOL && set.masks() > 0 ? masks : vectors;
    }

    private Operand operand(int v, int k) {
        int value = liveness.operand(v, k);
        if (value < 0) {
            return Operand.NONE;
        }
        return registers[value] >= 0 ? Operand.register(registers[value])
                : Operand.memory(places[value], repeated[value]);
    }

    /** Frees the registers of operands that nothing behind {@code v} reads. */
    private void release(int v) {
        for (int k = 0; k < 3; k++) {
            int value = liveness.operand(v, k);
            if (value >= 0 && registers[value] >= 0 && liveness.lastUse(value, level) <= v
                    && liveness.levelOf(value) == level) {
                file(body.lane(value)).release(registers[value]);
                registers[value] = -1;
            }
        }
    }

    /** Returns a register for a value: that of an operand which is no longer needed, if there is one. */
    private int allocate(int v, Lane lane, Operand... operands) {
        RegisterFile file = file(lane);
        int register = -1;
        for (Operand operand : operands) {
            if (operand.register() >= 0 && register < 0 && file == file(operandLane(v, operand, operands))
                    && file.isFree(operand.register())) {
                register = operand.register();
            }
        }
        register = register < 0 ? file.free() : register;
        if (register < 0) {
            register = file.victim(value -> liveness.nextUse(value, level, v));
            int victim = file.owner(register);
            if (places[victim] == null) {
                places[victim] = frame.reserve(body.lane(victim) == Lane.BOOL && set.masks() > 0 ? 8
                        : set.vectorBytes());
                set.spill(body.lane(victim), places[victim], register);
            }
            registers[victim] = -1;
        }
        file.assign(register, v);
        registers[v] = register;
        return register;
    }

    private Lane operandLane(int v, Operand operand, Operand... operands) {
        int k = 0;
        while (operands[k] != operand) {
            k++;
        }
        return body.lane(liveness.operand(v, k));
    }

    /** Stores a value that is the same for a call or a row where the loops over columns find it. */
    private void keepInvariant(int v, Lane lane) {
        if (level < Liveness.COLUMN) {
            places[v] = places[v] != null ? places[v] : frame.reserve(set.vectorBytes());
            set.spill(lane, places[v], registers[v]);
        }
    }

    private void keepParameter(int v, Node node) {
        Address source = frame.parameter((int) node.immediate());
        Address place = frame.reserve(set.repeatsElements() ? 8 : set.vectorBytes());
        switch (node.lane()) {
            case F32 -> {
                code.vex(Simd.CVTSD2SS, 128, 0, 0, source, 0);
                code.vex(Simd.STORESS, 128, 0, 0, place, 0);
            }
            case F64, I32, I64 -> {
                code.general(General.MOVE, RAX, source);
                code.store(8, place, RAX);
            }
            case BOOL -> {
                code.load32(RAX, source);
                keepBool(place);
            }
        }
        keepElement(v, node.lane(), place);
    }

    /** Stores -1 unless RAX is 0. */
    private void keepBool(Address place) {
        code.negate(RAX);
        code.fillWithCarry(RAX);
        code.store(8, place, RAX);
    }

    private void keepElement(int v, Lane lane, Address place) {
        places[v] = place;
        repeated[v] = set.repeatsElements();
        if (!repeated[v]) {
            set.move(lane, 0, Operand.memory(place, true));
            set.spill(lane, place, 0);
        }
    }

    private void load(int v, Node node, boolean last) {
        int operand = (int) node.immediate();
        DType type = types.get(operand);
        if (level == Liveness.ROW) {
            Address place = places[v] != null ? places[v]
                    : frame.reserve(set.repeatsElements() ? 8 : set.vectorBytes());
            keepRow(type, frame.ofRow(operand), place);
            keepElement(v, node.lane(), place);
            return;
        }
        int target = allocate(v, node.lane());
        if (isBuffered(last)) {
            frame.copyStrided(operand, buffers[operand], true);
            set.load(type, buffers[operand], target, false);
        } else {
            set.load(type, frame.ofColumn(operand), target, last);
        }
    }

    private boolean isBuffered(boolean last) {
        return strided || last && !set.masksLast();
    }

    private void keepRow(DType type, Address element, Address place) {
        switch (type) {
            case F32, I32 -> code.load32(RAX, element);
            case F64, I64 -> code.general(General.MOVE, RAX, element);
            case I8 -> code.general(General.SIGNED_BYTE, RAX, element);
            case U8, BOOL -> code.general(General.BYTE, RAX, element);
            case BF16, F16 -> code.general(General.SIGNED_WORD, RAX, element);
        }
        if (type == DType.BOOL) {
            keepBool(place);
        } else {
            code.store(8, place, RAX);
        }
    }

    private void store(int v, Node node, boolean last) {
        int operand = (int) node.immediate();
        DType type = types.get(operand);
        Operand source = operand(v, 0);
        if (isBuffered(last)) {
            set.store(type, liveness.operand(v, 0), buffers[operand], source, false);
            frame.copyStrided(operand, buffers[operand], false);
        } else {
            set.store(type, liveness.operand(v, 0), frame.ofColumn(operand), source, last);
        }
    }

    /** Loads the values that the columns' instructions read from memory most often into registers that they spare. */
    private void pinInvariants() {
        int spare = vectors.count() - pressure();
        for (int v = mostUsed(); v >= 0 && spare > 0; v = mostUsed(), spare--) {
            registers[v] = vectors.free();
            vectors.pin(registers[v]);
            set.move(body.lane(v), registers[v], Operand.memory(places[v], repeated[v]));
        }
    }

    /** Returns the first of the invariants in memory that are used most often, or -1. */
    private int mostUsed() {
        int most = -1;
        for (int v = 0; v < registers.length; v++) {
            boolean inMemory = liveness.levelOf(v) < Liveness.COLUMN && liveness.root(v) == v && isVector(v)
                    && liveness.uses(v) > 0 && !liveness.isAccumulator(v) && registers[v] < 0;
            if (inMemory && (most < 0 || liveness.uses(v) > liveness.uses(most))) {
                most = v;
            }
        }
        return most;
    }

    private void startAccumulators() {
        for (int v = 0; v < registers.length; v++) {
            if (liveness.isAccumulator(v)) {
                registers[v] = vectors.free();
                vectors.pin(registers[v]);
                set.move(Lane.F32, registers[v], Operand.memory(constant(Lane.F32, body.nodes().get(v).immediate()),
                        set.repeatsElements()));
            }
        }
    }

    /** Joins the lanes of accumulators, which began with 0 for sums, and with infinities for extremes. */
    private void endAccumulators() {
        for (Node node : body.nodes()) {
            if (node.primitive() == Primitive.UPDATE) {
                float first = Float.intBitsToFloat((int) body.nodes().get(node.b()).immediate());
                Primitive join = first == 0 ? Primitive.ADD : first < 0 ? Primitive.MAX : Primitive.MIN;
                Operand all = Operand.register(registers[node.b()]);
                Operand half = Operand.register(vectors.free());
                for (int bits = 8 * set.vectorBytes(); bits > 32; bits /= 2) {
                    set.moveUpper(bits, half.register(), all.register());
                    set.apply(new Node(join, Lane.F32, node.b(), node.b(), -1, 0), Lane.F32, all.register(), all, half,
                            Operand.NONE);
                }
                set.storeFirst(frame.ofRow((int) node.immediate()), all.register());
            }
        }
    }

    private boolean isVector(int v) {
        Primitive primitive = body.nodes().get(v).primitive();
        return primitive != Primitive.STORE && primitive != Primitive.UPDATE && file(body.lane(v)) == vectors;
    }

    /** Returns how many registers the values of columns need at most at a time. */
    private int pressure() {
        int[] changes = new int[registers.length + 1];
        for (int v = 0; v < registers.length; v++) {
            if (liveness.computes(v, Liveness.COLUMN) && isVector(v)) {
                changes[v]++;
                changes[Math.max(v, liveness.lastUse(v, Liveness.COLUMN)) + 1]--;
            }
        }
        int held = 0;
        int most = 0;
        for (int change : changes) {
            held += change;
            most = Math.max(most, held);
        }
        return most;
    }
}
