package dev.starling.tensor.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.junit.jupiter.api.Test;

/** {@code docs/ops.md} is up to date. With {@code -Dstarling.regenerate=true} the test writes the file. */
class OpsTableTest {
    @Test
    void tableIsUpToDate() throws IOException {
        OpsSource source = new OpsSource();
        String table = OpsTable.render(source);
        if (Boolean.getBoolean("starling.regenerate")) {
            Files.writeString(source.table(), table);
        }
        List<String> wanted = table.lines().toList();
        List<String> found = Files.exists(source.table()) ? Files.readAllLines(source.table()) : List.of();
        String remedy = "docs/ops.md is out of date: "
                + "run `mvn -pl tensor test -Dtest=OpsTableTest -Dstarling.regenerate=true`";
        for (int i = 0; i < Math.min(wanted.size(), found.size()); i++) {
            assertEquals(wanted.get(i), found.get(i), remedy);
        }
        assertEquals(wanted.size(), found.size(), remedy);
    }
}
