// The drawing board of demo.py: draws with mouse, pen or finger, takes dropped pictures, and hands
// the picture over as a PNG in a data URL. Needs demo_files.js.
const canvas = element.querySelector("canvas");
const context = canvas.getContext("2d", { willReadFrequently: true });
const [width, height] = [canvas.width, canvas.height];
let pen = "white";
let points = null;
let before = null;

function clear(paper, ink) {
  [canvas.width, canvas.height] = [width, height];
  context.fillStyle = paper;
  context.fillRect(0, 0, width, height);
  pen = ink;
  message.textContent = "";
}

function start(paper, ink) {
  clear(paper, ink);
  send(canvas.toDataURL("image/png"));
}

function place(event) {
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
}

function trace() {
  context.strokeStyle = pen;
  context.lineWidth = element.querySelector("input[type=range]").valueAsNumber;
  context.lineCap = context.lineJoin = "round";
  context.beginPath();
  context.moveTo(...points[0]);
  for (const point of points) context.lineTo(...point);
  context.stroke();
}

// A stroke with soft edges, like those of scanned digits: only its shadow falls on the board.
function finish() {
  const far = 10 * canvas.width;
  context.putImageData(before, 0, 0);
  context.save();
  context.shadowColor = pen;
  context.shadowBlur = element.querySelector("input[type=range]").valueAsNumber / 2;
  context.shadowOffsetX = far;
  context.translate(-far, 0);
  trace();
  context.restore();
}

// The pen must show on the picture: dark where the edge is light.
function edgeIsLight() {
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  let count = 0;
  for (let y = 0; y < canvas.height; y++) {
    const step = y % (canvas.height - 1) ? Math.max(1, canvas.width - 1) : 1;
    for (let x = 0; x < canvas.width; x += step) {
      const at = 4 * (y * canvas.width + x);
      sum += data[at] + data[at + 1] + data[at + 2];
      count += 3;
    }
  }
  return sum / count > 128;
}

async function show(file) {
  if (!(await drawFile(file, canvas, width, height))) return;
  pen = edgeIsLight() ? "black" : "white";
  send(canvas.toDataURL("image/png"));
}

async function showExample() {
  await show(await (await fetch(props.example)).blob());
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  before = context.getImageData(0, 0, canvas.width, canvas.height);
  points = [place(event)];
  trace();
});
canvas.addEventListener("pointermove", (event) => {
  if (!points) return;
  points.push(place(event));
  trace();
});
for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, () => {
    if (!points) return;
    finish();
    points = null;
    send(canvas.toDataURL("image/png"));
  });
}
takeFiles(show);
const actions = {
  black: () => start("black", "white"),
  white: () => start("white", "black"),
  example: showExample,
};
for (const [name, action] of Object.entries(actions)) {
  element.querySelector(`button.${name}`).addEventListener("click", action);
}
showExample();
