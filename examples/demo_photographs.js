// The photographs of demo.py: its examples, or a picture of the visitor's. Hands over the name of a
// detector and a PNG in a data URL, with a space between. Needs demo_files.js.
const canvas = document.createElement("canvas");
const detector = element.querySelector("select");
const examples = [...element.querySelectorAll("img")];

async function show(file) {
  if (!(await drawFile(file, canvas, props.side, props.side))) return;
  send(`${detector.value} ${canvas.toDataURL("image/png")}`);
}

function mark(chosen) {
  for (const example of examples) example.classList.toggle("chosen", example === chosen);
}

async function showExample(example) {
  mark(example);
  detector.value = example.dataset.detector;
  await show(await (await fetch(example.src)).blob());
}

for (const example of examples) {
  example.parentElement.addEventListener("click", () => showExample(example));
}
detector.addEventListener("change", () => {
  send(`${detector.value} ${canvas.toDataURL("image/png")}`);
});
takeFiles((file) => (mark(null), show(file)));
showExample(examples[0]);
