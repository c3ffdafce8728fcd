package dev.starling.tensor.program;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.View;
import dev.starling.tensor.program.Explanation.Line;
import dev.starling.tensor.program.Explanation.Operand;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ExplanationTest {
    private final Generator data = Generator.seeded(5);

    private Explanation explain(Program.Work work, Tensor input) {
        try (Program program = Program.capture(null, work, input).program()) {
            program.run(input);
            return program.explain();
        }
    }

    @Test
    void showsWhatARunCarriesOut() {
        try (Scope scope = Scope.open()) {
            Tensor weight = data.normal(3, 4);
            Explanation all = explain(in -> {
                in[0].exp();
                Tensor constant = Tensor.ones(3).add(1);
                return new Tensor[] {Functions.linear(in[0], weight, null).mul(constant).relu().t().sum(0)};
            }, data.normal(2, 4));
            assertThat(all.before()).extracting(Line::operation).containsExactly("exp", "full", "affine", "linear",
                    "mul", "relu", "permute", "sum");
            assertThat(all.before()).extracting(Line::note).containsExactly("unused", "first run only",
                    "first run only", "", "fused into 1", "fused into 1", "view", "");
            assertThat(all.before()).extracting(Line::into).containsExactly(-1, -1, -1, 0, 1, 1, -1, 2);
            assertThat(all.after()).extracting(Line::operation).containsExactly("linear", "mul + relu", "sum");
            assertThat(all.after().get(0).operands()).containsExactly(new Operand(-1, "input 0"),
                    new Operand(-1, "f32 [3, 4]"));
            assertThat(all.after().get(1).operands()).containsExactly(new Operand(0, "0"),
                    new Operand(-1, "constant"));
            assertThat(all.after().get(2).operands()).containsExactly(new Operand(1, "1"));
            assertThat(all.after().get(2).result()).isEqualTo("f32 [2]");
        }
    }

    @Test
    void countsBytesAndOperations() {
        try (Scope scope = Scope.open()) {
            Tensor weight = data.normal(3, 4);
            Tensor row = data.normal(3);
            Explanation all = explain(in -> new Tensor[] {
                Functions.linear(in[0], weight, null).add(row.expand(2, 3)).relu()}, data.normal(2, 4));
            assertThat(all.after()).extracting(Line::bytes).containsExactly(4L * (8 + 12 + 6), 4L * (6 + 3 + 6));
            assertThat(all.after()).extracting(Line::flops).containsExactly(2L * 2 * 3 * 4, 2L * 6);
            assertThat(all.memory()).isGreaterThanOrEqualTo(4L * (6 + 6));
        }
    }

    @Test
    void countsReorders() {
        try (Scope scope = Scope.open()) {
            // A matrix product cannot read every second column where it lies.
            View.Slice second = new View.Slice(new long[2], new long[] {1, 2}, new long[] {8, 8});
            Tensor wide = data.normal(8, 16);
            Explanation all = explain(in -> new Tensor[] {Tensor.compute(second, wide).matmul(in[0])},
                    data.normal(8, 3));
            assertThat(all.before().getLast().reorders()).isEqualTo(1);
            assertThat(all.after().getLast().reorders()).isEqualTo(1);
        }
    }

    @Test
    void printsAndDrawsBothLists(@TempDir Path folder) throws Exception {
        try (Scope scope = Scope.open()) {
            Explanation all = explain(in -> new Tensor[] {in[0].exp().mul(2).sum(0)}, data.normal(2, 4));
            assertThat(all.toString()).contains("captured: 3 operations", "in a run: 2 operations", "exp + affine",
                    "fused into 0");
            Path page = folder.resolve("program.html");
            all.write(page);
            List<String> lines = Files.readAllLines(page);
            assertThat(lines).filteredOn(line -> line.startsWith("<path")).as("reads of results").hasSize(2 + 1);
            assertThat(lines).filteredOn(line -> line.startsWith("<line")).as("what carries it out").hasSize(3);
        }
    }
}
