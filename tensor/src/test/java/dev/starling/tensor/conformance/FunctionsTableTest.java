package dev.starling.tensor.conformance;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/** {@code docs/functions.md} is up to date. With {@code -Dstarling.regenerate=true} the test writes the file. */
class FunctionsTableTest {
    @Test
    void tableIsUpToDate() throws IOException {
        OpsSource source = new OpsSource();
        source.requireCurrent("docs/functions.md", FunctionsTable.render(source), "tensor", "FunctionsTableTest");
    }
}
