package dev.starling.tensor.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import org.junit.jupiter.api.Test;

/** {@code docs/ops.md} says what the code does. With {@code -Dstarling.regenerate=true} it is written anew. */
class OpsTableTest {
    @Test
    void tableIsUpToDate() throws IOException {
        OpsSource source = new OpsSource();
        String table = OpsTable.render(source);
        if (Boolean.getBoolean("starling.regenerate")) {
            Files.writeString(source.table(), table);
        }
        assertEquals(table, Files.exists(source.table()) ? Files.readString(source.table()) : "",
                "docs/ops.md is out of date: run `mvn -pl tensor test -Dtest=OpsTableTest -Dstarling.regenerate=true`");
    }
}
