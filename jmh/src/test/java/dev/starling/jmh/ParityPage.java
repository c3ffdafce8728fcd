package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The generated page {@code docs/nn.md}, whose rows are all layers, losses, optimisers and so on: each has to have a
 * comparison with PyTorch.
 */
final class ParityPage {
    private static final Pattern ROW = Pattern.compile("\\| `(?:new )?([^`]*)\\([^`(]*\\)` \\|.*");

    private ParityPage() { }

    /** Returns what is called to make the objects of a section, for example {@code Linear.of} and {@code Relu}. */
    static List<String> calls(String section) throws IOException {
        Path root = Path.of("").toAbsolutePath();
        while (!Files.exists(root.resolve("docs/nn.md"))) {
            root = root.getParent();
        }
        String page = Files.readString(root.resolve("docs/nn.md"));
        int start = page.indexOf("\n## " + section + "\n");
        assertThat(start).as(section).isPositive();
        int end = page.indexOf("\n## ", start + 1);
        return page.substring(start, end < 0 ? page.length() : end).lines().map(ROW::matcher).filter(Matcher::matches)
                .map(m -> m.group(1)).toList();
    }

    /** Requires a comparison of each row of a section, and no comparison of what has no row. */
    static void requireAll(String section, Collection<String> compared) throws IOException {
        Set<String> rows = new TreeSet<>(calls(section));
        assertThat(rows).isNotEmpty();
        assertThat(new TreeSet<>(compared)).as("what docs/nn.md lists under %s, and what is compared", section)
                .isEqualTo(rows);
    }
}
