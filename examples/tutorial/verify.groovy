// Each program must have learned, and docs/tutorial.md must show these very programs.
def log = new File(basedir, 'build.log').text
assert Math.abs(((log =~ /sin\(2\) = ([-\d.]+)/)[0][1] as double) - Math.sin(2)) < 0.1
def rents = (log =~ /rent in Munich: (\d+), in Leipzig: (\d+)/)[0]
assert Math.abs((rents[1] as int) - 1250) < 60 && Math.abs((rents[2] as int) - 500) < 60
assert log.contains('version 1')
assert ((log =~ /parcels: .*accuracy ([\d.]+) %/)[0][1] as double) > 95
def losses = (log =~ /rank \d of 2: epoch 30 +loss ([\d.eE-]+)/).collect { it[1] as double }
assert !losses.isEmpty() && losses.every { it < 0.01 }
def page = new File(basedir, '../../../../docs/tutorial.md').text
new File(basedir, 'src/main/java').eachFile { assert page.contains(it.text) }
true
