// Each program must have learned, on a JVM without flags.
def log = new File(basedir, 'build.log').text
def accuracies = (log =~ /held-out.*kind accuracy ([\d.]+) %/).collect { it[1] as double }
assert accuracies.size() == 10 && accuracies.last() > 95
def errors = (log =~ /held-out.*price mean absolute error ([\d.]+)/).collect { it[1] as double }
assert errors.last() < 0.05
assert log.contains('[kind=1, price=0.6')
// Houses: it fits, it has stopped early, and the server, whose model is from the file, knows 120 · 5 · (1 - 0.004 · age).
def fits = (log =~ /held-out loss [\d.]+  R\S+ ([\d.]+)/).collect { it[1] as double }
assert fits.size() < 200 && fits.max() > 0.95
def prices = (log =~ /in Bern cost ([\d.]+)/).collect { it[1] as double }
assert prices.size() == 8
prices.eachWithIndex { price, i -> assert Math.abs(price - 600 * (1 - 0.04 * i)) < 30 }
// Shapes: it has learned, and the matrix is drawn.
def shapes = (log =~ /held-out loss [\d.]+  accuracy ([\d.]+) %/).collect { it[1] as double }
assert shapes.size() == 12 && shapes.last() > 85
assert javax.imageio.ImageIO.read(new File((log =~ /drawn in (\S+)/)[0][1])).width > 200
// FineTune: the trunk is that of the saved model, and little data suffices for three classes.
assert (log =~ /pre-trained \{loss=[\d.E-]+, accuracy=0.9\d+/).find()
assert (log =~ /(?m)^(?:\[INFO\] )?accuracy ([\d.]+) %/).collect { it[1] as double }.last() > 95
// Distill: the student has learned from the teacher and from the labels.
assert ((log =~ /student: .*held-out.*hard accuracy ([\d.]+) %/)[0][1] as double) > 95
// A recipe is short.
new File(basedir, 'src/main/java').eachFile { assert it.readLines().size() < 60 }
true
