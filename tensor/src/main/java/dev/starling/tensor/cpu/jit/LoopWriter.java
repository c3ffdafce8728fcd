package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.cpu.jit.LoopBody.Node;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.List;
import java.util.function.Predicate;

/**
 * Writes the two nested loops of a kernel, over rows and over columns. Parameters and constants are read before the
 * loops; operands that are equal for all columns are read once per row.
 */
final class LoopWriter {
    private static final MethodTypeDesc GET = MethodTypeDesc.of(ConstantDescs.CD_long, ConstantDescs.CD_int);
    private static final int FRAME = 0;
    private static final int ROW = 1;
    private static final int ROW_END = 3;
    private static final int COLUMN_FROM = 5;
    private static final int COLUMN_END = 7;

    private final CodeBuilder code;
    private final Expression expression;
    private final LoopBody body;
    private final List<Access> accesses;
    private final InstructionSet set;
    private final int[] slots;
    private final int[] addresses;
    private final int[] rowStrides;
    private final int[] columnStrides;
    private int column;
    private int columns;
    private int end;
    /** The position where the loop over columns continues with the next elements. */
    private final Label next;

    LoopWriter(CodeBuilder code, Expression expression, LoopBody body, List<Access> accesses, InstructionSet set) {
        this.code = code;
        this.expression = expression;
        this.body = body;
        this.accesses = accesses;
        this.set = set;
        slots = new int[body.nodes().size()];
        addresses = new int[accesses.size()];
        rowStrides = new int[accesses.size()];
        columnStrides = new int[accesses.size()];
        next = code.newLabel();
    }

    void write() {
        readFrame();
        Label rows = code.newLabel();
        Label done = code.newLabel();
        code.labelBinding(rows).lload(ROW).lload(ROW_END).lcmp().ifge(done);
        defineAll(this::isInvariantOfRow);
        writeColumns();
        if (set.width() > 1) {
            writeRest();
        }
        for (int k = 0; k < addresses.length; k++) {
            code.lload(addresses[k]).lload(rowStrides[k]).ladd().lstore(addresses[k]);
        }
        code.lload(ROW).lconst_1().ladd().lstore(ROW).goto_(rows).labelBinding(done).return_();
    }

    private void readFrame() {
        int operands = addresses.length;
        for (int k = 0; k < operands; k++) {
            rowStrides[k] = readLong(operands + k);
            columnStrides[k] = accesses.get(k) == Access.STRIDED ? readLong(2 * operands + k) : -1;
            addresses[k] = code.allocateLocal(TypeKind.LONG);
            pushLong(k);
            code.lload(ROW).lload(rowStrides[k]).lmul().ladd();
            switch (accesses.get(k)) {
                case CONTIGUOUS -> code.lload(COLUMN_FROM).loadConstant((long) bytes(k)).lmul().ladd();
                case STRIDED -> code.lload(COLUMN_FROM).lload(columnStrides[k]).lmul().ladd();
                case BROADCAST -> { }
            }
            code.lstore(addresses[k]);
        }
        defineAll(node -> node.primitive() == Primitive.PARAMETER
                || node.primitive() == Primitive.CONSTANT && set.keepsConstants());
        columns = code.allocateLocal(TypeKind.INT);
        code.lload(COLUMN_END).lload(COLUMN_FROM).lsub().l2i().istore(columns);
        end = columns;
        if (set.width() > 1) {
            end = code.allocateLocal(TypeKind.INT);
            code.iload(columns).loadConstant(-set.width()).iand().istore(end);
        }
        column = code.allocateLocal(TypeKind.INT);
    }

    private int readLong(int index) {
        int slot = code.allocateLocal(TypeKind.LONG);
        pushLong(index);
        code.lstore(slot);
        return slot;
    }

    private void pushLong(int index) {
        code.aload(FRAME).loadConstant(index).invokevirtual(KernelWriter.FRAME, "get", GET);
    }

    private int bytes(int operand) {
        return expression.operand(operand).bytes();
    }

    private boolean isInvariantOfRow(Node node) {
        return node.primitive() == Primitive.LOAD && accesses.get((int) node.immediate()) == Access.BROADCAST;
    }

    private void writeColumns() {
        Label loop = code.newLabel();
        Label done = code.newLabel();
        code.iconst_0().istore(column);
        code.labelBinding(loop).iload(column).iload(end).if_icmpge(done);
        defineAll(node -> node.primitive() != Primitive.PARAMETER && node.primitive() != Primitive.CONSTANT
                && !isInvariantOfRow(node));
        code.labelBinding(next).iinc(column, set.width()).goto_(loop).labelBinding(done);
    }

    /** Passes the last elements of the row, too few for a vector, to the loop over single elements. */
    private void writeRest() {
        Label none = code.newLabel();
        code.iload(end).iload(columns).if_icmpge(none);
        pushColumn(end);
        code.lload(COLUMN_END);
        code.invokestatic(KernelWriter.SELF, "scalar", KernelWriter.RUN).labelBinding(none);
    }

    /** Pushes the first four arguments of a call for the rest of the row, beginning at column {@code from}. */
    private void pushColumn(int from) {
        code.aload(FRAME).lload(ROW).lload(ROW).lconst_1().ladd();
        code.lload(COLUMN_FROM).iload(from).i2l().ladd();
    }

    /** Passes this vector's elements to the loop over single elements if the condition holds for any of them. */
    private void writeRare(VectorInstructions vectors, Node node) {
        Label usual = code.newLabel();
        vectors.jumpIfNone(this::push, node.a(), usual);
        pushColumn(column);
        pushColumnEnd();
        code.invokestatic(KernelWriter.SELF, "scalar", KernelWriter.RUN).goto_(next).labelBinding(usual);
    }

    private void pushColumnEnd() {
        code.lload(COLUMN_FROM).iload(column).i2l().ladd().loadConstant((long) set.width()).ladd();
    }

    private void defineAll(Predicate<Node> which) {
        List<Node> nodes = body.nodes();
        for (int value = 0; value < nodes.size(); value++) {
            if (which.test(nodes.get(value))) {
                define(value, nodes.get(value));
            }
        }
    }

    private void define(int value, Node node) {
        int operand = (int) node.immediate();
        switch (node.primitive()) {
            case STORE -> {
                set.store(expression.operand(operand), () -> pushAddress(operand), () -> push(node.a()));
                return;
            }
            case LOAD -> {
                if (accesses.get(operand) == Access.BROADCAST) {
                    set.loadBroadcast(expression.operand(operand), () -> pushAddress(operand));
                } else {
                    set.load(expression.operand(operand), () -> pushAddress(operand));
                }
            }
            case PARAMETER -> {
                pushLong(3 * addresses.length + operand);
                set.parameter(node.lane());
            }
            case CONSTANT -> set.constant(node.lane(), node.immediate());
            case RARE -> {
                if (set instanceof VectorInstructions vectors) {
                    writeRare(vectors, node);
                    slots[value] = slots[node.b()];
                    return;
                }
                set.apply(node, body.lane(node.a()), this::push);
            }
            default -> set.apply(node, body.lane(node.a()), this::push);
        }
        TypeKind kind = set.kind(node.lane());
        slots[value] = code.allocateLocal(kind);
        code.storeLocal(kind, slots[value]);
    }

    private void push(int value) {
        Node node = body.nodes().get(value);
        if (node.primitive() == Primitive.CONSTANT && !set.keepsConstants()) {
            set.constant(node.lane(), node.immediate());
        } else {
            code.loadLocal(set.kind(node.lane()), slots[value]);
        }
    }

    private void pushAddress(int operand) {
        code.lload(addresses[operand]);
        switch (accesses.get(operand)) {
            case CONTIGUOUS -> {
                int shift = Integer.numberOfTrailingZeros(bytes(operand));
                code.iload(column).i2l();
                if (shift > 0) {
                    code.loadConstant(shift).lshl();
                }
                code.ladd();
            }
            case STRIDED -> code.iload(column).i2l().lload(columnStrides[operand]).lmul().ladd();
            case BROADCAST -> { }
        }
    }
}
