package dev.starling.distributed.ps.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.tensor.op.Rule;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInput;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

class RuleFormatTest {
    private static final Rule SGD = new Rule.Sgd(0.9, 0.1, 0.2, true);
    private static final Rule ADAM = new Rule.Adam(0.8, 0.99, 1e-7, 0.3, true);

    private interface Writer {
        void write(DataOutputStream out) throws IOException;
    }

    private static DataInput written(Writer writer) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        writer.write(new DataOutputStream(bytes));
        return new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()));
    }

    @Test
    void readsWhatItWrites() throws IOException {
        for (Rule rule : List.of(SGD, ADAM, new Rule.Adagrad(1e-9, 0.4, 0.1),
                new Rule.Rmsprop(0.9, 1e-3, 0.1, 0.8, true), new Rule.Lion(0.9, 0.99, 0.1))) {
            DataInput in = written(out -> RuleFormat.write(rule, out));
            assertThat(RuleFormat.read(in, 3)).isEqualTo(rule);
            assertThatThrownBy(in::readByte).isInstanceOf(IOException.class);
        }
    }

    @Test
    void readsComponentsThatWereAddedLaterAsZero() throws IOException {
        DataInput in = written(out -> {
            out.writeUTF("Adam");
            out.writeByte(2);
            out.writeDouble(0.8);
            out.writeDouble(0.99);
        });
        assertThat(RuleFormat.read(in, 3)).isEqualTo(new Rule.Adam(0.8, 0.99, 0, 0, false));
    }

    @Test
    void refusesRulesThatItDoesNotKnow() throws IOException {
        DataInput unknown = written(out -> out.writeUTF("Newton"), 1);
        assertThatThrownBy(() -> RuleFormat.read(unknown, 3)).isInstanceOf(IOException.class)
                .hasMessageContaining("Newton");
        DataInput longer = written(out -> out.writeUTF("Sgd"), 5);
        assertThatThrownBy(() -> RuleFormat.read(longer, 3)).isInstanceOf(IOException.class)
                .hasMessageContaining("5 settings");
        for (int position : new int[] {-1, 3}) {
            DataInput beyond = written(out -> { }, position);
            assertThatThrownBy(() -> RuleFormat.read(beyond, 2)).isInstanceOf(IOException.class);
        }
    }

    @Test
    void refusesSettingsOutOfRange() throws IOException {
        DataInput in = written(out -> {
            out.writeUTF("Adam");
            out.writeByte(2);
            out.writeDouble(0.9);
            out.writeDouble(1);
        });
        assertThatThrownBy(() -> RuleFormat.read(in, 3)).isInstanceOf(IOException.class)
                .hasMessageContaining("beta2").hasMessageContaining("1.0");
        DataInput negative = written(out -> out.writeUTF("Adam"), -1);
        assertThatThrownBy(() -> RuleFormat.read(negative, 3)).isInstanceOf(IOException.class);
    }

    private static DataInput written(Writer writer, int lastByte) throws IOException {
        return written(out -> {
            writer.write(out);
            out.writeByte(lastByte);
        });
    }

    /** As the version before this one wrote them, so that a server's directory of that version stays readable. */
    private static void writeVersion2(DataOutputStream out) throws IOException {
        for (int number : new int[] {2, 1, 3, 4096, -1, 3}) {
            out.writeInt(number);
        }
        out.writeUTF("sgd");
        out.writeLong(5);
        out.writeByte(0);
        for (double component : new double[] {0.9, 0.1, 0.2}) {
            out.writeDouble(component);
        }
        out.writeBoolean(true);
        out.writeUTF("adam");
        out.writeLong(6);
        out.writeByte(1);
        for (double component : new double[] {0.8, 0.99, 1e-7, 0.3}) {
            out.writeDouble(component);
        }
        out.writeBoolean(true);
        out.writeUTF("adagrad");
        out.writeLong(7);
        out.writeByte(2);
        out.writeDouble(1e-9);
        out.writeDouble(0.4);
        out.writeInt(0);
    }

    @Test
    void readsPlansOfVersion2() throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        writeVersion2(new DataOutputStream(bytes));
        assertThat(Plan.decode(bytes.toByteArray())).isEqualTo(new Plan(1, 3, 4096, new Consistency.Asynchronous(),
                List.of(new Plan.Dense("sgd", 5, SGD), new Plan.Dense("adam", 6, ADAM),
                        new Plan.Dense("adagrad", 7, new Rule.Adagrad(1e-9, 0.4, 0))), List.of()));
    }
}
