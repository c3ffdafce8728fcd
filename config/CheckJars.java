import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Checks the artifacts of all modules that the bill of materials lists, as `mvn -Prelease verify` has built them: what
 * a public repository asks for, and what users of the jars rely on. Arguments: the root of the repository, the version.
 */
public final class CheckJars {
    private static final Pattern ARTIFACT = Pattern.compile("<artifactId>(starling-[a-z-]+)</artifactId>");
    private final List<String> problems = new ArrayList<>();

    public static void main(String... args) throws IOException {
        Path root = Path.of(args[0]);
        CheckJars check = new CheckJars();
        String list = Files.readString(root.resolve("bom/pom.xml"));
        List<Path> poms;
        try (var files = Files.walk(root, 3)) {
            poms = files.filter(p -> p.endsWith("pom.xml") && !p.toString().contains("target")).toList();
        }
        int modules = 0;
        Matcher artifact = ARTIFACT.matcher(list.substring(list.indexOf("<dependencyManagement>")));
        while (artifact.find()) {
            String name = artifact.group(1);
            Path module = poms.stream().filter(p -> read(p).contains("</parent>") && read(p).split("</parent>")[1]
                    .strip().startsWith("<artifactId>" + name + "</artifactId>")).findFirst().orElseThrow().getParent();
            check.module(module, name, args[1]);
            modules++;
        }
        check.pom(root.resolve("pom.xml"));
        check.pom(root.resolve("bom/pom.xml"));
        if (!check.problems.isEmpty()) {
            check.problems.forEach(problem -> System.err.println("release: " + problem));
            System.exit(1);
        }
        System.out.println("release: the jars of " + modules + " modules are complete");
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    private void require(boolean holds, String problem) {
        if (!holds) {
            problems.add(problem);
        }
    }

    /** Children inherit all but name and description. */
    private void pom(Path pom) {
        for (String element : List.of("name", "description", "url", "licenses", "developers", "scm")) {
            require(read(pom).contains("<" + element), pom + " has no " + element);
        }
    }

    private void module(Path module, String name, String version) throws IOException {
        String pom = read(module.resolve("pom.xml")).split("</parent>")[1];
        require(pom.contains("<name>") && pom.contains("<description>"), name + " has no name or no description");
        Path jar = module.resolve("target/" + name + "-" + version + ".jar");
        Path sources = module.resolve("target/" + name + "-" + version + "-sources.jar");
        Path javadoc = module.resolve("target/" + name + "-" + version + "-javadoc.jar");
        Path gradle = module.resolve("target/" + name + "-" + version + ".module");
        for (Path each : List.of(jar, sources, javadoc, gradle)) {
            require(Files.exists(each), each + " is missing");
        }
        if (!Files.exists(jar) || !Files.exists(sources) || !Files.exists(javadoc)) {
            return;
        }
        try (JarFile classes = new JarFile(jar.toFile()); JarFile text = new JarFile(sources.toFile());
                JarFile pages = new JarFile(javadoc.toFile())) {
            // The packages of what the integrations depend on are split over jars: they stay on the class path.
            require(classes.getEntry("module-info.class") != null || module.toString().contains("integrations"),
                    jar + " is no module");
            for (JarFile each : List.of(classes, text)) {
                require(each.getEntry("META-INF/LICENSE") != null, each.getName() + " has no licence");
                require(each.getEntry("META-INF/NOTICE") != null, each.getName() + " has no notice");
            }
            require(pages.getEntry("index.html") != null || pom.contains("<maven.javadoc.skip>"),
                    javadoc + " has no pages");
            Set<String> names = text.stream().map(entry -> entry.getName()).collect(Collectors.toSet());
            names.stream().filter(entry -> entry.endsWith(".java") && entry.contains("/"))
                    .map(entry -> entry.substring(0, entry.lastIndexOf('/') + 1)).distinct().sorted()
                    .forEach(folder -> require(names.contains(folder + "package-info.java"),
                            "the package " + folder.replace('/', '.') + " of " + name + " has no description"));
        }
    }
}
