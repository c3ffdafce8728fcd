package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.jar.JarFile;
import org.apache.spark.launcher.JavaModuleOptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.api.io.TempDir;

/**
 * The jar of the profile {@code application} under {@code spark-submit}, beside Spark's jars alone;
 * {@code -Dstarling.application=FILE} names it.
 */
@Tag("stress")
@Timeout(600)
@EnabledIfSystemProperty(named = "starling.application", matches = ".+")
class SubmitTest {
    private static final Path APPLICATION = Path.of(System.getProperty("starling.application", "")).toAbsolutePath();

    @TempDir
    private Path directory;

    /** Returns the jars of this class path that are not in the application. */
    private static List<Path> sparksJars() throws IOException {
        List<Path> jars = new ArrayList<>();
        try (JarFile application = new JarFile(APPLICATION.toFile())) {
            for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
                if (entry.endsWith(".jar")) {
                    try (JarFile jar = new JarFile(entry)) {
                        if (jar.stream().filter(e -> e.getName().endsWith(".class") || e.getName().endsWith(".so"))
                                .filter(e -> !e.getName().endsWith("-info.class"))
                                .noneMatch(e -> application.getEntry(e.getName()) != null)) {
                            jars.add(Path.of(entry));
                        }
                    }
                }
            }
        }
        return jars;
    }

    private String submit(String log, String... arguments) throws Exception {
        Path jars = Files.createDirectories(directory.resolve("home/jars"));
        for (Path jar : sparksJars()) {
            Path link = jars.resolve(jar.getFileName());
            if (!Files.exists(link)) {
                Files.createSymbolicLink(link, jar);
            }
        }
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow()));
        command.addAll(List.of(JavaModuleOptions.defaultModuleOptions().split(" ")));
        command.addAll(List.of("-XX:+UseSerialGC", "-Xmx1g", "-cp", jars + "/*", "org.apache.spark.deploy.SparkSubmit",
                "--master", "local-cluster[2,1,1024]", "--conf", "spark.ui.enabled=false", "--conf",
                "spark.driver.host=127.0.0.1", APPLICATION.toString()));
        command.addAll(List.of(arguments));
        ProcessBuilder builder = new ProcessBuilder(command).directory(directory.toFile()).redirectErrorStream(true)
                .redirectOutput(directory.resolve(log).toFile());
        builder.environment().put("SPARK_HOME", directory.resolve("home").toString());
        Process process = builder.start();
        try {
            assertThat(process.waitFor(200, TimeUnit.SECONDS)).isTrue();
        } finally {
            process.descendants().forEach(ProcessHandle::destroy);
            process.destroy();
        }
        String output = Files.readString(directory.resolve(log));
        assertThat(process.exitValue()).as(output).isZero();
        return output;
    }

    @Test
    void trainsAndPredicts() throws Exception {
        String model = directory.resolve("spirals.safetensors").toUri().toString();
        assertThat(submit("train.log", "train", "--save", model))
                .containsPattern("accuracy 9\\d\\.|accuracy 0\\.9|100");
        assertThat(submit("predict.log", "predict", "--model", model, "--save", directory.resolve("scored").toUri()
                .toString())).isNotNull();
        assertThat(directory.resolve("scored/_SUCCESS")).exists();
    }
}
